/*
 * The tables that generate.py emits and the decoder and encoder walk. Private to src/protocol.
 * A layout is a struct at one version: what is on the wire, in order, and where it goes in C.
 */
#ifndef TWINLOG_PROTOCOL_TABLE_H
#define TWINLOG_PROTOCOL_TABLE_H

#include "twinlog/protocol/codec.h"

enum field_kind {
    FIELD_BOOL,
    FIELD_INT8,
    FIELD_INT16,
    FIELD_INT32,
    FIELD_INT64,
    FIELD_UINT16,
    FIELD_UINT32,
    FIELD_FLOAT64,
    FIELD_UUID,
    FIELD_STRING,
    FIELD_BYTES,
    FIELD_RECORDS,
    FIELD_STRUCT,         /* embedded, never null */
    FIELD_STRUCT_POINTER, /* null in some version */
    FIELD_ARRAY,
};

struct layout;

struct field {
    uint8_t kind;         /* enum field_kind */
    uint8_t element_kind; /* of an array */
    bool nullable;        /* at this version */
    uint16_t offset;      /* in the C struct */
    uint16_t count_offset;
    uint16_t element_size;     /* in C, of the element or the field itself */
    uint16_t element_size_min; /* fewest bytes of an array's element on the wire, at least 1 */
    uint32_t tag;
    const struct layout *layout; /* of a struct or of an array of them */
};

struct layout {
    const struct field *fields;
    const struct field *tagged; /* ascending by tag */
    const void *defaults;       /* the C struct with every field at its default */
    uint16_t field_count;
    uint16_t tagged_count;
    uint16_t size; /* of the C struct */
    bool flexible;
};

struct straight_reader;
struct straight_writer;

struct message_type {
    const char *name;
    const struct layout *const *layouts; /* by version, from version_min on */
    /* NULL, or straight-line code for versions in range; false: it gave up, walk the tables. */
    bool (*straight_decode)(struct straight_reader *reader, int16_t version, void *message);
    bool (*straight_encode)(struct straight_writer *writer, int16_t version, const void *message);
    int16_t version_min;
    int16_t version_max;
};

/* The size of a scalar on the wire in bytes; kinds from FIELD_STRING on have none. */
static inline uint8_t field_scalar_size(enum field_kind kind)
{
    static const uint8_t sizes[] = {
        [FIELD_BOOL] = 1,   [FIELD_INT8] = 1,    [FIELD_INT16] = 2,
        [FIELD_INT32] = 4,  [FIELD_INT64] = 8,   [FIELD_UINT16] = 2,
        [FIELD_UINT32] = 4, [FIELD_FLOAT64] = 8, [FIELD_UUID] = 16,
    };
    return sizes[kind];
}

/* Ascending by key. */
extern const struct api protocol_apis[];
extern const size_t protocol_api_count;

/* Every message of the schema: requests, responses and internal records. */
extern const struct message_type *const protocol_messages[];
extern const size_t protocol_message_count;

/* Strings are at most this long, whatever their length prefix could say. */
#define STRING_SIZE_MAX 32767u

/* NULL when the schema has no such version. */
const struct layout *message_type_layout(const struct message_type *type, int16_t version);

#endif
