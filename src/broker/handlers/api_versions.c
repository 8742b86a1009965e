/* ApiVersions: the dispatch table, as a client reads it (KIP-35, KIP-511). */
#include "../shard.h"

static status api_versions_fill(struct shard *shard, struct api_versions_response *response)
{
    size_t count;
    const struct api_entry *entries = dispatch_table(&count);
    struct api_versions_response_api_version *keys =
        arena_array(&shard->scratch, count, sizeof(*keys));
    if (keys == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        keys[i] = api_versions_response_api_version_default;
        keys[i].api_key = entries[i].key;
        /* Produce begins at 0 here, though 0 to 2 are refused: see PROTOCOL notes in README.md. */
        keys[i].min_version = MIN(entries[i].api->version_min_advertised, entries[i].version_min);
        keys[i].max_version = entries[i].version_max;
    }
    response->api_keys = keys;
    response->api_keys_count = (int32_t)count;
    return OK;
}

enum net_verdict handle_api_versions(struct shard *shard, struct request *request)
{
    struct api_versions_request message;
    struct api_versions_response response = api_versions_response_default;
    if (!status_is_ok(request_decode(request, &shard->scratch, &message)) ||
        !status_is_ok(api_versions_fill(shard, &response))) {
        return NET_CLOSE;
    }
    return request_respond(request, &response);
}

enum net_verdict answer_unknown_api_versions(struct shard *shard, struct request *request)
{
    struct api_versions_response response = api_versions_response_default;
    if (!status_is_ok(api_versions_fill(shard, &response))) {
        return NET_CLOSE;
    }
    response.error_code = KAFKA_UNSUPPORTED_VERSION;
    request->version = 0;
    return request_respond(request, &response);
}
