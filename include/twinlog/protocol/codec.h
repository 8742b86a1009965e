/*
 * Kafka's wire format, table driven. The generator (src/protocol/generate.py) turns each
 * src/protocol/schema/<api>.schema into C structs and field tables; messages.h brings them all. One
 * decoder and one encoder walk the tables.
 *
 * Shape of the generated code, for a message pair `produce`:
 *
 *     struct produce_request { struct bytes transactional_id; int16_t acks; int32_t timeout_ms;
 *                              struct produce_request_topic_produce_data *topic_data;
 *                              int32_t topic_data_count; };
 *     extern const struct message_type produce_request_type;
 *
 * string, bytes and records are `struct bytes` (data == NULL is null); an array is a pointer and
 * `<name>_count` (-1 is null); a nullable struct is a pointer; uuid is `struct uuid`; bool,
 * int8..64, uint16, uint32, float64 are their C types. Field names are Kafka's in snake_case. A
 * field absent in the version that is decoded has its schema default. A nested struct is named
 * <message>_<struct name>, Kafka's struct name in snake_case; one whose name already begins with
 * the message's keeps it once (metadata_response_topic). A struct that is to be encoded starts as a
 * copy of its `<struct>_default`: a tagged field is sent when it differs from its default.
 */
#ifndef TWINLOG_PROTOCOL_CODEC_H
#define TWINLOG_PROTOCOL_CODEC_H

#include "twinlog/core/arena.h"
#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"
#include "twinlog/core/uuid.h"

/* One message's table; its layout is private to src/protocol. */
struct message_type;

/* Name as in Kafka, e.g. "ProduceRequest". */
const char *message_type_name(const struct message_type *type);

/* The size of the C struct in bytes. */
size_t message_type_size(const struct message_type *type);

/*
 * Decodes one message body from `input` into `message` (message_type_size() bytes). Strings, bytes
 * and records are views into `input`; arrays come from `arena`. All of `input` must be consumed.
 * A count is bounded by the bytes that remain before anything is allocated. Unknown tagged fields
 * are skipped.
 *
 * TRUNCATED: ends too early; INVALID: malformed, or bytes left over; TOO_LARGE: the arena is full;
 * UNSUPPORTED: version outside the schema.
 */
MUST_USE status message_decode(const struct message_type *type, int16_t version, struct bytes input,
                               struct arena *arena, void *message);

/*
 * The same for a message that more bytes may follow: on OK `input` is what is left over. Kafka
 * takes requests so, and clients count on it without knowing: librdkafka from 2.3 on writes three
 * bytes too many when it asks for the Metadata of all topics.
 */
MUST_USE status message_decode_prefix(const struct message_type *type, int16_t version,
                                      struct bytes *input, struct arena *arena, void *message);

/*
 * Encoder output: a list of ranges, so that large record sets are referenced, not copied.
 * Scalars are written into `buffer`; a `records` field larger than `copy_max` becomes a range of
 * its own that points at the caller's bytes.
 */
struct message_range {
    const uint8_t *data;
    uint32_t size;
};

struct message_writer {
    uint8_t *buffer; /* caller's */
    uint32_t capacity;
    uint32_t size;                /* bytes used in buffer */
    struct message_range *ranges; /* caller's, may be NULL: then everything is copied */
    uint32_t range_count_max;
    uint32_t range_count;
    uint32_t range_start; /* where in buffer the open range began */
    uint32_t copy_max;    /* records larger than this are referenced; ignored without ranges */
};

/*
 * The encoded size of `message` at `version` in bytes, records included (an upper bound is never
 * given: it is exact). TOO_LARGE above 2^31 - 1, or a string above 32767 bytes. INVALID: a null
 * where the version allows none. UNSUPPORTED: version outside the schema.
 */
MUST_USE status message_size(const struct message_type *type, int16_t version, const void *message,
                             uint32_t *size);

/*
 * Encodes `message`. The writer must have room: size it with message_size() (FULL otherwise).
 * Call message_writer_finish() to close the last range. Records are referenced only while three
 * ranges are free, else copied. May be called again to append another message.
 */
MUST_USE status message_encode(const struct message_type *type, int16_t version,
                               const void *message, struct message_writer *writer);

/* Closes the open range, so that ranges[0..range_count) is the whole output in order. */
void message_writer_finish(struct message_writer *writer);

/* Request header, versions 1 (no tags) and 2 (flexible); read leniently (PROTOCOL.md). */
struct request_header {
    int16_t api_key;
    int16_t api_version;
    int32_t correlation_id;
    struct bytes client_id; /* may be null */
    uint32_t size;          /* bytes it took */
};

/*
 * Reads the header of a frame (the bytes after the 4-byte length). Which version it has follows
 * from key and version; for an unknown key or version, version 1 is assumed and trailing bytes are
 * not judged. TRUNCATED or INVALID when it cannot be a Kafka request.
 */
MUST_USE status request_header_decode(struct bytes frame, struct request_header *header);

/* One API: what ApiVersions advertises and what the dispatch table is checked against. */
struct api {
    int16_t key;
    int16_t version_min;            /* lowest that is decoded and served */
    int16_t version_min_advertised; /* 0 for Produce: PROTOCOL.md */
    int16_t version_max;
    int16_t flexible_from; /* INT16_MAX: never */
    const char *name;      /* "Produce" */
    const struct message_type *request;
    const struct message_type *response;
};

/* NULL when there is no such key in the schema. */
const struct api *api_find(int16_t key);

/* All APIs in the schema that have a key, ascending; the count is in *count. */
const struct api *api_all(size_t *count);

/*
 * 0 or 1: the response header version (1 carries tags); ApiVersions always has 0.
 */
int api_response_header_version(const struct api *api, int16_t version);

#endif
