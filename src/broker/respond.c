/*
 * From a frame to a typed message and back. An answer is
 *
 *     0  uint32  size of what follows
 *     4  int32   correlation id
 *     8          tagged fields, none (one zero byte), from response header version 1 on
 *                body
 *
 * and is built in the request's inline bytes when it fits.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "shard.h"

#define RESPONSE_HEADER_SIZE 8u
#define REQUEST_ARENA_MAX    ((size_t)64 * 1024 * 1024)

struct arena *request_arena(struct request *request)
{
    if (!request->arena_in_use) {
        request->arena_in_use = true;
        arena_init(&request->arena, REQUEST_ARENA_MAX);
    }
    return &request->arena;
}

static void trace_request(const struct request *request, const char *what, const char *why)
{
    char peer[64];
    net_request_peer(&request->net, peer, sizeof(peer));
    trace_warn("broker", "%s version %d from %s: %s: %s", request->entry->api->name,
               request->version, peer, what, why);
}

status request_decode(struct request *request, struct arena *arena, void *message)
{
    /*
     * As Kafka, whatever stands behind the message. Member by member, because they were stored so a
     * moment ago: a load of both at once would wait for the stores.
     */
    struct bytes input = {request->body.data, request->body.size};
    status result = message_decode_prefix(request->entry->api->request, request->version, &input,
                                          arena, message);
    if (!status_is_ok(result)) {
        trace_request(request, "cannot be decoded, the connection is closed", status_text(result));
    }
    return result;
}

/* Writes size, correlation id and tags at `to`; returns how many bytes. */
static uint32_t header_size(const struct request *request)
{
    return RESPONSE_HEADER_SIZE +
           (uint32_t)api_response_header_version(request->entry->api, request->version);
}

static void header_write(const struct request *request, uint8_t *to, uint64_t answer_size)
{
    store_be32(to, (uint32_t)(answer_size - sizeof(uint32_t)));
    store_be32(to + 4, (uint32_t)request->correlation_id);
    if (header_size(request) > RESPONSE_HEADER_SIZE) {
        to[RESPONSE_HEADER_SIZE] = 0;
    }
}

static void set_single_range(struct request *request, uint8_t *data, uint32_t size)
{
    header_write(request, data, size);
    request->net.inline_range = (struct iovec){.iov_base = data, .iov_len = size};
    request->net.ranges = &request->net.inline_range;
    request->net.range_count = 1;
}

static status encode_large(struct request *request, const void *message)
{
    const struct message_type *type = request->entry->api->response;
    uint32_t start = header_size(request);
    uint32_t size;
    TRY(message_size(type, request->version, message, &size));
    if (size > INT32_MAX - start) {
        return STATUS(TOO_LARGE);
    }
    free(request->answer);
    request->answer = malloc(start + size);
    if (request->answer == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct message_writer writer = {.buffer = request->answer + start, .capacity = size};
    TRY(message_encode(type, request->version, message, &writer));
    ASSERT(writer.size == size);
    set_single_range(request, request->answer, start + size);
    return OK;
}

status request_encode(struct request *request, const void *message)
{
    uint32_t start = header_size(request);
    struct message_writer writer = {
        .buffer = request->inline_answer + start,
        .capacity = REQUEST_INLINE_ANSWER_SIZE - start,
    };
    status result =
        message_encode(request->entry->api->response, request->version, message, &writer);
    if (status_is_ok(result)) {
        set_single_range(request, request->inline_answer, start + writer.size);
    } else if (result.code == STATUS_FULL) {
        result = encode_large(request, message);
    }
    if (!status_is_ok(result)) {
        trace_request(request, "the answer cannot be encoded", status_text(result));
    }
    return result;
}

status request_encode_ranges(struct request *request, const void *message, uint32_t range_count,
                             uint64_t referenced_size, uint32_t copy_max)
{
    const struct message_type *type = request->entry->api->response;
    uint32_t start = header_size(request);
    uint32_t size;
    TRY(message_size(type, request->version, message, &size));
    ASSERT(referenced_size <= size);
    uint32_t capacity = start + (uint32_t)(size - referenced_size);
    struct arena *arena = request_arena(request);
    struct message_range *ranges = arena_array(arena, range_count, sizeof(*ranges));
    struct iovec *out = arena_array(arena, range_count, sizeof(*out));
    request->answer = malloc(capacity);
    if (ranges == NULL || out == NULL || request->answer == NULL) {
        return STATUS(NO_MEMORY);
    }
    /* The header is part of the first range. */
    struct message_writer writer = {
        .buffer = request->answer,
        .capacity = capacity,
        .size = start,
        .ranges = ranges,
        .range_count_max = range_count,
        .copy_max = copy_max,
    };
    TRY(message_encode(type, request->version, message, &writer));
    message_writer_finish(&writer);
    header_write(request, request->answer, (uint64_t)start + size);
    for (uint32_t i = 0; i < writer.range_count; i++) {
        out[i] = (struct iovec){.iov_base = (void *)ranges[i].data, .iov_len = ranges[i].size};
    }
    request->net.ranges = out;
    request->net.range_count = writer.range_count;
    return OK;
}

enum net_verdict request_respond(struct request *request, const void *message)
{
    if (status_is_ok(request_encode(request, message))) {
        net_request_answer(&request->net);
    } else {
        net_request_close(&request->net);
    }
    return NET_TAKEN;
}

void request_close(struct request *request, const char *why)
{
    trace_request(request, "the connection is closed", why);
    net_request_close(&request->net);
}

enum net_verdict request_refuse(struct request *request, const char *why)
{
    trace_request(request, "the connection is closed", why);
    return NET_CLOSE;
}

void request_wait_room(struct request *request, void (*resume)(struct request *request))
{
    request->resume = resume;
    list_push_back(&request->shard->room_waits, &request->link);
}
