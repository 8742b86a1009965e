/* DescribeCluster: id, controller and brokers (KIP-700). */
#include "../shard.h"

#define ENDPOINT_TYPE_BROKERS     1
#define ENDPOINT_TYPE_CONTROLLERS 2

enum net_verdict handle_describe_cluster(struct shard *shard, struct request *request)
{
    struct describe_cluster_request message;
    if (!status_is_ok(request_decode(request, &shard->scratch, &message))) {
        return NET_CLOSE;
    }
    struct describe_cluster_response response = describe_cluster_response_default;
    struct describe_cluster_response_describe_cluster_broker broker =
        describe_cluster_response_describe_cluster_broker_default;
    response.cluster_id = bytes_of(shard->cluster_id);
    if (message.endpoint_type != ENDPOINT_TYPE_BROKERS) {
        /* KIP-919: controllers have no endpoint of their own here. */
        bool known = message.endpoint_type == ENDPOINT_TYPE_CONTROLLERS;
        response.error_code =
            known ? KAFKA_MISMATCHED_ENDPOINT_TYPE : KAFKA_UNSUPPORTED_ENDPOINT_TYPE;
        response.error_message = bytes_of("This endpoint is a broker's");
        response.cluster_id = bytes_of("");
        return request_respond(request, &response);
    }
    broker.broker_id = shard->node_id;
    broker.host = bytes_of(shard->config->advertised_host);
    broker.port = shard_advertised_port(shard);
    broker.rack = shard->config->rack[0] == '\0' ? BYTES_NULL : bytes_of(shard->config->rack);
    response.controller_id = shard->node_id;
    response.brokers = &broker;
    response.brokers_count = 1;
    if (message.include_cluster_authorized_operations) {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    return request_respond(request, &response);
}
