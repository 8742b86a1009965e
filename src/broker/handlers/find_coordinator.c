/*
 * FindCoordinator: on one node this node coordinates every group. Also a client's way to learn what
 * a broker can do: librdkafka compresses with lz4 only where this API is advertised.
 */
#include "../shard.h"

#define KEY_TYPE_GROUP       0
#define KEY_TYPE_TRANSACTION 1

struct found {
    enum kafka_error error;
    const char *message;
};

static struct found find(int8_t key_type)
{
    switch (key_type) {
    case KEY_TYPE_GROUP:
        return (struct found){KAFKA_NONE, NULL};
    case KEY_TYPE_TRANSACTION:
        /* Transactions are not served in this release; clients take this error for final. */
        return (struct found){KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                              "Transactions are not served by this release"};
    default:
        return (struct found){KAFKA_INVALID_REQUEST, "No coordinator of this type is served"};
    }
}

static void coordinator_fill(const struct shard *shard, struct bytes key, struct found found,
                             struct find_coordinator_response_coordinator *out)
{
    bool here = found.error == KAFKA_NONE;
    *out = find_coordinator_response_coordinator_default;
    out->key = key;
    out->node_id = here ? shard->node_id : -1;
    out->host = bytes_of(here ? shard->config->advertised_host : "");
    out->port = here ? shard_advertised_port(shard) : -1;
    out->error_code = (int16_t)found.error;
    out->error_message = bytes_of(found.message);
}

enum net_verdict handle_find_coordinator(struct shard *shard, struct request *request)
{
    struct find_coordinator_request message;
    struct find_coordinator_response response = find_coordinator_response_default;
    if (!status_is_ok(request_decode(request, &shard->scratch, &message))) {
        return NET_CLOSE;
    }
    struct found found = find(message.key_type);
    if (request->version < 4) {
        struct find_coordinator_response_coordinator one;
        coordinator_fill(shard, message.key, found, &one);
        response.error_code = one.error_code;
        response.error_message = one.error_message;
        response.node_id = one.node_id;
        response.host = one.host;
        response.port = one.port;
        return request_respond(request, &response);
    }
    size_t count = (size_t)MAX(message.coordinator_keys_count, 0);
    response.coordinators = arena_array(&shard->scratch, count, sizeof(*response.coordinators));
    if (response.coordinators == NULL) {
        return request_refuse(request, "no memory for the answer");
    }
    response.coordinators_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        coordinator_fill(shard, message.coordinator_keys[i], found, &response.coordinators[i]);
    }
    return request_respond(request, &response);
}
