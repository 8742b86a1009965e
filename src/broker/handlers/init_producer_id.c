/*
 * InitProducerId: ids for idempotent producers. Ids come from a block that a committed record has
 * reserved, so an id is never given out twice, whatever crashes. An idempotent producer that names
 * the id it has gets a fresh one, as from Kafka: it raises its epoch by itself (KIP-360).
 */
#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "../shard.h"

static void producer_id_reserve(struct shard *shard);

static void answer_error(struct request *request, enum kafka_error error)
{
    struct init_producer_id_response response = init_producer_id_response_default;
    response.error_code = (int16_t)error;
    response.producer_id = -1;
    response.producer_epoch = -1;
    (void)request_respond(request, &response);
}

static void answer_id(struct request *request, int64_t id, int16_t epoch)
{
    struct init_producer_id_response response = init_producer_id_response_default;
    response.producer_id = id;
    response.producer_epoch = epoch;
    (void)request_respond(request, &response);
}

/* Serves who waits, as far as the block goes. */
static void producer_id_serve(struct shard *shard)
{
    struct list_node *node;
    while (shard->producer_id_next < shard->producer_id_end &&
           (node = list_pop_front(&shard->producer_id_waits)) != NULL) {
        answer_id(CONTAINER_OF(node, struct request, link), shard->producer_id_next++, 0);
    }
    if (!list_is_empty(&shard->producer_id_waits)) {
        producer_id_reserve(shard);
    }
}

static void producer_id_fail_all(struct shard *shard, enum kafka_error error)
{
    struct list_node *node;
    while ((node = list_pop_front(&shard->producer_id_waits)) != NULL) {
        answer_error(CONTAINER_OF(node, struct request, link), error);
    }
}

static void producer_id_on_committed(struct log_wait *wait)
{
    struct shard *shard = wait->context;
    shard->producer_id_reserving = false;
    if (!status_is_ok(wait->result)) {
        producer_id_fail_all(shard, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    /* metadata_apply() has seen the record: all below are ours. */
    shard->producer_id_end = shard->metadata.next_producer_id;
    shard->producer_id_next = shard->producer_id_end - shard->config->producer_id_block_size;
    producer_id_serve(shard);
}

static void producer_id_reserve(struct shard *shard)
{
    if (shard->producer_id_reserving) {
        return;
    }
    struct producer_ids_record record = producer_ids_record_default;
    record.next_producer_id =
        shard->metadata.next_producer_id + shard->config->producer_id_block_size;
    uint64_t lsn = 0;
    status result =
        metadata_append(shard, RECORD_TYPE_PRODUCER_IDS, &producer_ids_record_type, &record, &lsn);
    if (!status_is_ok(result)) {
        /* Both are retried by clients; a full log has room again soon. */
        producer_id_fail_all(shard, result.code == STATUS_FULL ? KAFKA_COORDINATOR_LOAD_IN_PROGRESS
                                                               : KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    shard->producer_id_reserving = true;
    shard->producer_id_wait.context = shard;
    log_wait_committed(shard->log, &shard->producer_id_wait, lsn, producer_id_on_committed);
}

enum net_verdict handle_init_producer_id(struct shard *shard, struct request *request)
{
    struct init_producer_id_request message;
    if (!status_is_ok(request_decode(request, &shard->scratch, &message))) {
        return NET_CLOSE;
    }
    if (!bytes_is_null(message.transactional_id) && message.transactional_id.size == 0) {
        answer_error(request, KAFKA_INVALID_REQUEST);
        return NET_TAKEN;
    }
    if (!bytes_is_null(message.transactional_id)) {
        /* Transactions are not served in this release; clients take this error for final. */
        answer_error(request, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        return NET_TAKEN;
    }
    if ((message.producer_id == -1) != (message.producer_epoch == -1)) {
        answer_error(request, KAFKA_INVALID_REQUEST);
        return NET_TAKEN;
    }
    list_push_back(&shard->producer_id_waits, &request->link);
    producer_id_serve(shard);
    return NET_TAKEN;
}
