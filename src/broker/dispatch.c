/* One table of the APIs served: it answers requests and ApiVersions alike. */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "shard.h"

/*
 * Metadata and ApiVersions answer from memory; Produce copies its records into the log and what it
 * needs later into the request. The others keep their frame.
 */
static struct api_entry dispatch_entries[] = {
    {API_PRODUCE, 3, 13, .pipelined = true, .handler = handle_produce},
    {API_FETCH, 4, 18, .keeps = true, .handler = handle_fetch},
    {API_LIST_OFFSETS, 1, 11, .keeps = true, .handler = handle_list_offsets},
    {API_METADATA, 0, 13, .keeps = true, .handler = handle_metadata},
    {API_FIND_COORDINATOR, 0, 6, .handler = handle_find_coordinator},
    {API_API_VERSIONS, 0, 4, .handler = handle_api_versions},
    {API_CREATE_TOPICS, 2, 7, .keeps = true, .handler = handle_create_topics},
    {API_DELETE_TOPICS, 1, 6, .keeps = true, .handler = handle_delete_topics},
    {API_DELETE_RECORDS, 0, 2, .keeps = true, .handler = handle_delete_records},
    {API_INIT_PRODUCER_ID, 0, 5, .keeps = true, .handler = handle_init_producer_id},
    {API_OFFSET_FOR_LEADER_EPOCH, 2, 4, .keeps = true, .handler = handle_offset_for_leader_epoch},
    {API_DESCRIBE_CONFIGS, 1, 4, .keeps = true, .handler = handle_describe_configs},
    {API_ALTER_CONFIGS, 0, 2, .keeps = true, .handler = handle_alter_configs},
    {API_DESCRIBE_LOG_DIRS, 1, 4, .keeps = true, .handler = handle_describe_log_dirs},
    {API_CREATE_PARTITIONS, 0, 3, .keeps = true, .handler = handle_create_partitions},
    {API_INCREMENTAL_ALTER_CONFIGS, 0, 1, .keeps = true,
     .handler = handle_incremental_alter_configs},
    {API_DESCRIBE_CLUSTER, 0, 2, .handler = handle_describe_cluster},
    {API_DESCRIBE_PRODUCERS, 0, 0, .keeps = true, .handler = handle_describe_producers},
    {API_DESCRIBE_TOPIC_PARTITIONS, 0, 0, .keeps = true,
     .handler = handle_describe_topic_partitions},
};

const struct api_entry *dispatch_table(size_t *count)
{
    *count = COUNT_OF(dispatch_entries);
    return dispatch_entries;
}

const struct api_entry *dispatch_find(int16_t key)
{
    for (size_t i = 0; i < COUNT_OF(dispatch_entries); i++) {
        if (dispatch_entries[i].key == key) {
            return &dispatch_entries[i];
        }
    }
    return NULL;
}

_Static_assert(COUNT_OF(dispatch_entries) <= METRICS_API_COUNT_MAX, "each is counted");

bool dispatch_check(void)
{
    for (size_t i = 0; i < COUNT_OF(dispatch_entries); i++) {
        struct api_entry *entry = &dispatch_entries[i];
        entry->api = api_find(entry->key);
        if (entry->api == NULL || entry->api->version_min > entry->version_min ||
            entry->api->version_max != entry->version_max || entry->handler == NULL ||
            (i > 0 && entry->key <= dispatch_entries[i - 1].key)) {
            trace_error("broker", "the dispatch table disagrees with the schema about API %d",
                        entry->key);
            return false;
        }
    }
    return true;
}

static void request_release(struct net_request *net)
{
    struct request *request = CONTAINER_OF(net, struct request, net);
    struct shard *shard = request->shard;
    bool crashed = shard != NULL && shard->crashed;
    if (crashed && list_node_is_linked(&request->link)) {
        list_remove(&request->link);
    }
    ASSERT(!list_node_is_linked(&request->link));
    if (shard != NULL && request->arrived_ns != 0 && !crashed) {
        metrics_observe(&shard->metrics.apis[request->entry - dispatch_entries].answered,
                        io_now_ns(shard->io) - request->arrived_ns);
    }
    if (request->cleanup != NULL) {
        request->cleanup(request);
    }
    free(request->answer);
    if (request->arena_in_use) {
        arena_fini(&request->arena);
    }
}

/* Kafka closes the connection on a request it cannot know; so does this broker. */
static enum net_verdict dispatch_refuse(const struct net_request *net,
                                        const struct request_header *header)
{
    char peer[64];
    net_request_peer(net, peer, sizeof(peer));
    trace_warn("broker", "%s asked for API %d version %d, which is not served: closed", peer,
               header->api_key, header->api_version);
    return NET_CLOSE;
}

static void dispatch_count(struct shard *shard, struct request *request)
{
    request->arrived_ns = io_now_ns(shard->io);
    shard->metrics.apis[request->entry - dispatch_entries].requests++;
}

static enum net_verdict dispatch_run(struct shard *shard, struct request *request,
                                     struct bytes frame, uint32_t header_size)
{
    const struct api_entry *entry = request->entry;
    if (!entry->pipelined) {
        net_request_hold(&request->net);
    }
    if (entry->keeps) {
        frame = net_request_keep(&request->net, frame);
        if (bytes_is_null(frame)) {
            return request_refuse(request, "no memory for the request");
        }
    }
    request->body = (struct bytes){frame.data + header_size, frame.size - header_size};
    enum net_verdict verdict = entry->handler(shard, request);
    arena_reset(&shard->scratch);
    return verdict;
}

enum net_verdict dispatch_request(void *context, struct net_request *net, struct bytes frame)
{
    struct shard *shard = context;
    struct request *request = CONTAINER_OF(net, struct request, net);
    struct request_header header;
    if (!status_is_ok(request_header_decode(frame, &header))) {
        char peer[64];
        net_request_peer(net, peer, sizeof(peer));
        trace_warn("broker", "%s sent something that is no Kafka request: closed", peer);
        shard->metrics.refused_requests++;
        return NET_CLOSE;
    }
    const struct api_entry *entry = dispatch_find(header.api_key);
    bool known = entry != NULL && header.api_version >= entry->version_min &&
                 header.api_version <= entry->version_max;
    if (entry == NULL || (!known && header.api_key != API_API_VERSIONS)) {
        shard->metrics.refused_requests++;
        return dispatch_refuse(net, &header);
    }
    /*
     * Requests take effect in order: only appends may follow each other before they are answered.
     * Any other request holds its connection, so whatever is unanswered before this is an append.
     */
    if (!entry->pipelined && !net_request_is_first(net)) {
        return NET_LATER;
    }
    request->shard = shard;
    request->entry = entry;
    request->version = header.api_version;
    request->correlation_id = header.correlation_id;
    net->release = request_release;
    dispatch_count(shard, request);
    if (!known) {
        return answer_unknown_api_versions(shard, request);
    }
    return dispatch_run(shard, request, frame, header.size);
}
