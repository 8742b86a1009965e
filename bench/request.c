#include "request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "twinlog/core/crc32c.h"
#include "twinlog/protocol/batch.h"
#include "twinlog/protocol/codec.h"
#include "twinlog/protocol/kafka_error.h"
#include "twinlog/protocol/messages.h"

#define HEADER_SIZE 27 /* header version 2 with our client id, without the length */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "twinlog-bench: %s: %s\n", what, why);
    exit(1);
}

static void must(status s, const char *what)
{
    if (!status_is_ok(s)) {
        die(what, status_text(s));
    }
}

/* Length, then header version 2: key, version, correlation id, client id, no tags. */
static uint32_t header_write(uint8_t *frame, uint32_t body_size, int16_t key, int16_t version,
                             bool flexible)
{
    static const char client_id[] = "twinlog-bench-01";
    uint32_t size = 10 + sizeof(client_id) - 1 + (flexible ? 1 : 0);
    store_be32(frame, size + body_size);
    store_be16(frame + 4, (uint16_t)key);
    store_be16(frame + 6, (uint16_t)version);
    store_be32(frame + 8, 0);
    store_be16(frame + 12, sizeof(client_id) - 1);
    memcpy(frame + 14, client_id, sizeof(client_id) - 1);
    if (flexible) {
        frame[14 + sizeof(client_id) - 1] = 0;
    }
    return 4 + size;
}

static uint8_t *frame_build(const struct message_type *type, int16_t key, int16_t version,
                            const void *message, uint32_t *size)
{
    uint32_t body_size = 0;
    must(message_size(type, version, message, &body_size), "message_size");
    uint8_t *frame = malloc(4 + HEADER_SIZE + body_size);
    if (frame == NULL) {
        die("request", "out of memory");
    }
    bool flexible = version >= api_find(key)->flexible_from;
    uint32_t at = header_write(frame, body_size, key, version, flexible);
    struct message_writer writer = {.buffer = frame + at, .capacity = body_size};
    must(message_encode(type, version, message, &writer), "message_encode");
    *size = at + body_size;
    return frame;
}

static struct bytes batch_build(const struct options *options, uint32_t *stamp_at)
{
    uint32_t capacity = BATCH_HEADER_SIZE + options->records * (options->record_size + 32);
    uint8_t *buffer = malloc(capacity);
    uint8_t *value = malloc(options->record_size);
    if (buffer == NULL || value == NULL) {
        die("record batch", "out of memory");
    }
    for (uint32_t i = 0; i < options->record_size; i++) {
        value[i] = (uint8_t)('a' + (i * 7 + i / 13) % 26);
    }
    memset(value, 0xa5, 16);
    /* Of today: brokers would delete older records under the measurement. */
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    struct batch_builder builder;
    batch_builder_init(&builder, buffer, capacity);
    for (uint32_t i = 0; i < options->records; i++) {
        must(batch_builder_add(&builder, now_ms, BYTES_NULL,
                               (struct bytes){value, options->record_size}),
             "batch_builder_add");
    }
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    uint8_t *first = memmem(batch.data, batch.size, value, 16);
    *stamp_at = (uint32_t)(first - batch.data);
    free(value);
    return batch;
}

/* Response version 9: header with tags, then one topic with one partition. */
static void response_layout(struct request_template *template, const char *topic)
{
    uint32_t name = (uint32_t)strlen(topic);
    uint32_t before_error = 4 + 5 + 1 + varint_size_u32(name + 1) + name + 1 + 4;
    template->error_at = before_error;
    /* error 2, base offset 8, append time 8, log start 8, record errors 1, message 1, tags 1+1,
     * throttle time 4, tags 1 */
    template->response_size = before_error + 2 + 24 + 2 + 2 + 4 + 1;
}

void request_template_init(struct request_template *template, const struct options *options)
{
    *template = (struct request_template){0};
    uint32_t stamp_in_batch = 0;
    struct bytes batch = batch_build(options, &stamp_in_batch);
    struct produce_request_partition_produce_data partition = {.index = 0x7a5a5a7a,
                                                               .records = batch};
    struct produce_request_topic_produce_data topic = {
        .name = bytes_of(options->topic), .partition_data = &partition, .partition_data_count = 1};
    struct produce_request request = {.acks = (int16_t)options->acks,
                                      .timeout_ms = 30000,
                                      .topic_data = &topic,
                                      .topic_data_count = 1};
    template->frame =
        frame_build(&produce_request_type, 0, REQUEST_PRODUCE_VERSION, &request, &template->size);
    static const uint8_t marker[4] = {0x7a, 0x5a, 0x5a, 0x7a};
    uint8_t *partition_at = memmem(template->frame, template->size, marker, 4);
    uint8_t *batch_at = memmem(template->frame, template->size, batch.data, batch.size);
    if (partition_at == NULL || batch_at == NULL) {
        die("request", "the encoder did not write the batch as given");
    }
    template->correlation_at = 8;
    template->partition_at = (uint32_t)(partition_at - template->frame);
    template->batch_at = (uint32_t)(batch_at - template->frame);
    template->batch_size = batch.size;
    template->stamp_at = template->batch_at + stamp_in_batch;
    response_layout(template, options->topic);
    free((void *)batch.data);
}

void request_template_fini(struct request_template *template)
{
    free(template->frame);
}

void request_stamp(const struct request_template *template, uint8_t *frame, uint32_t connection,
                   uint64_t sequence)
{
    store_be32(frame + template->correlation_at, (uint32_t)sequence);
    store_be64(frame + template->stamp_at, connection);
    store_be64(frame + template->stamp_at + 8, sequence);
    uint8_t *batch = frame + template->batch_at;
    store_be32(batch + 17, crc32c(0, batch + 21, template->batch_size - 21));
}

/* ---------------------------------------------------------------- blocking set-up */

static int broker_connect(const struct options *options)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || inet_pton(AF_INET, options->host, &address.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        die("cannot connect to the broker", options->host);
    }
    return fd;
}

static void all_read(int fd, uint8_t *buffer, uint32_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, buffer, size, 0);
        if (got <= 0) {
            die("set-up", "the broker closed the connection");
        }
        buffer += got;
        size -= (uint32_t)got;
    }
}

static struct bytes call(int fd, const struct message_type *type, int16_t key, int16_t version,
                         const void *request)
{
    uint32_t size = 0;
    uint8_t length[4];
    uint8_t *frame = frame_build(type, key, version, request, &size);
    if (send(fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size) {
        die("set-up", "the request could not be sent");
    }
    free(frame);
    all_read(fd, length, 4);
    uint32_t response_size = load_be32(length);
    uint8_t *response = malloc(response_size);
    if (response == NULL) {
        die("set-up", "out of memory");
    }
    all_read(fd, response, response_size);
    return (struct bytes){response, response_size};
}

static void response_decode(const struct message_type *type, int16_t key, int16_t version,
                            struct bytes frame, struct arena *arena, void *message)
{
    uint32_t header = 4u + (uint32_t)api_response_header_version(api_find(key), version);
    must(message_decode(type, version, (struct bytes){frame.data + header, frame.size - header},
                        arena, message),
         "the broker's answer");
}

static void topic_create(int fd, const struct options *options, struct arena *arena)
{
    struct create_topics_request_creatable_topic topic = {
        .name = bytes_of(options->topic),
        .num_partitions = (int32_t)options->partitions,
        .replication_factor = (int16_t)options->replication_factor};
    struct create_topics_request request = {
        .topics = &topic, .topics_count = 1, .timeout_ms = 60000};
    struct create_topics_response response;
    struct bytes frame = call(fd, &create_topics_request_type, 19, 5, &request);
    response_decode(&create_topics_response_type, 19, 5, frame, arena, &response);
    if (response.topics_count != 1 ||
        (response.topics[0].error_code != KAFKA_NONE &&
         response.topics[0].error_code != KAFKA_TOPIC_ALREADY_EXISTS)) {
        die("the broker refuses the topic",
            response.topics_count == 1
                ? kafka_error_name((enum kafka_error)response.topics[0].error_code)
                : "no answer");
    }
    free((void *)frame.data);
}

static bool topic_is_ready(int fd, const struct options *options, struct arena *arena)
{
    struct metadata_request_topic topic = {.name = bytes_of(options->topic)};
    struct metadata_request request = {.topics = &topic, .topics_count = 1};
    struct metadata_response response;
    struct bytes frame = call(fd, &metadata_request_type, 3, 9, &request);
    arena_reset(arena);
    response_decode(&metadata_response_type, 3, 9, frame, arena, &response);
    bool ready = response.topics_count == 1 && response.topics[0].error_code == 0 &&
                 response.topics[0].partitions_count >= (int32_t)options->partitions;
    for (int32_t i = 0; ready && i < response.topics[0].partitions_count; i++) {
        ready = response.topics[0].partitions[i].leader_id >= 0;
    }
    free((void *)frame.data);
    return ready;
}

void request_topic_create(const struct options *options)
{
    struct arena arena;
    arena_init(&arena, 64u << 20);
    int fd = broker_connect(options);
    if (!options->keep_topic) {
        topic_create(fd, options, &arena);
    }
    for (int attempt = 0; !topic_is_ready(fd, options, &arena); attempt++) {
        if (attempt == 600) {
            die("the topic did not become ready in 60 s", options->topic);
        }
        usleep(100000);
    }
    /* Kafka's metadata names leaders that do not lead yet: NOT_LEADER_OR_FOLLOWER for a moment. */
    usleep(1500000);
    close(fd);
    arena_fini(&arena);
}
