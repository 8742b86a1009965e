/* Building Produce requests, and the few blocking calls that set a topic up. */
#ifndef TWINLOG_BENCH_REQUEST_H
#define TWINLOG_BENCH_REQUEST_H

#include "options.h"
#include "twinlog/core/bytes.h"

#define REQUEST_PRODUCE_VERSION 9

/* A framed Produce request with one batch; copied per connection and stamped per send. */
struct request_template {
    uint8_t *frame; /* with the 4-byte length */
    uint32_t size;
    uint32_t correlation_at; /* offsets in frame */
    uint32_t partition_at;
    uint32_t batch_at;
    uint32_t batch_size;
    uint32_t stamp_at;      /* 16 bytes of the first record's value: connection, sequence */
    uint32_t response_size; /* with the 4-byte length, when nothing is wrong */
    uint32_t error_at;      /* offset of the error code in the response, with the length */
};

/* Builds the template; exits when memory is out. */
void request_template_init(struct request_template *template, const struct options *options);

/* Frees it. */
void request_template_fini(struct request_template *template);

/* Stamps a copy: correlation id, connection and sequence in the record, and the batch's CRC. */
void request_stamp(const struct request_template *template, uint8_t *frame, uint32_t connection,
                   uint64_t sequence);

/*
 * Makes the topic and waits until all partitions have a leader. Exits with a message when the
 * broker refuses.
 */
void request_topic_create(const struct options *options);

#endif
