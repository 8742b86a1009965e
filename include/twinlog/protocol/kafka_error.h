/*
 * Kafka's error codes as of 4.2, with the names Kafka gives them and short texts of our own.
 * They travel as int16 in responses.
 */
#ifndef TWINLOG_PROTOCOL_KAFKA_ERROR_H
#define TWINLOG_PROTOCOL_KAFKA_ERROR_H

#include "twinlog/core/base.h"

/* clang-format off */
#define KAFKA_ERROR_MAP(X) \
    X(UNKNOWN_SERVER_ERROR, -1, "unexpected error in the broker") \
    X(NONE, 0, "no error") \
    X(OFFSET_OUT_OF_RANGE, 1, "the offset is outside the partition's log") \
    X(CORRUPT_MESSAGE, 2, "a batch is damaged: its checksum, size or layout is wrong") \
    X(UNKNOWN_TOPIC_OR_PARTITION, 3, "no such topic or partition here") \
    X(INVALID_FETCH_SIZE, 4, "the fetch size is invalid") \
    X(LEADER_NOT_AVAILABLE, 5, "the partition has no leader yet") \
    X(NOT_LEADER_OR_FOLLOWER, 6, "this broker does not lead the partition") \
    X(REQUEST_TIMED_OUT, 7, "the request timed out") \
    X(BROKER_NOT_AVAILABLE, 8, "the broker is not available") \
    X(REPLICA_NOT_AVAILABLE, 9, "the replica is not available") \
    X(MESSAGE_TOO_LARGE, 10, "the batch is larger than max.message.bytes") \
    X(STALE_CONTROLLER_EPOCH, 11, "the controller has moved") \
    X(OFFSET_METADATA_TOO_LARGE, 12, "the metadata of the offset is too large") \
    X(NETWORK_EXCEPTION, 13, "the connection ended before the answer") \
    X(COORDINATOR_LOAD_IN_PROGRESS, 14, "the coordinator is loading") \
    X(COORDINATOR_NOT_AVAILABLE, 15, "the coordinator is not available") \
    X(NOT_COORDINATOR, 16, "another broker coordinates this") \
    X(INVALID_TOPIC_EXCEPTION, 17, "the topic name is invalid, or the topic is internal") \
    X(RECORD_LIST_TOO_LARGE, 18, "the records are larger than a segment") \
    X(NOT_ENOUGH_REPLICAS, 19, "fewer replicas are in sync than min.insync.replicas") \
    X(NOT_ENOUGH_REPLICAS_AFTER_APPEND, 20, "written, but replicas left before the commit") \
    X(INVALID_REQUIRED_ACKS, 21, "acks must be -1, 0 or 1") \
    X(ILLEGAL_GENERATION, 22, "the generation is not the group's") \
    X(INCONSISTENT_GROUP_PROTOCOL, 23, "the member shares no protocol with the group") \
    X(INVALID_GROUP_ID, 24, "the group id is invalid") \
    X(UNKNOWN_MEMBER_ID, 25, "the group has no such member") \
    X(INVALID_SESSION_TIMEOUT, 26, "the session timeout is outside the broker's limits") \
    X(REBALANCE_IN_PROGRESS, 27, "the group is rebalancing: rejoin") \
    X(INVALID_COMMIT_OFFSET_SIZE, 28, "the size of the committed offset data is invalid") \
    X(TOPIC_AUTHORIZATION_FAILED, 29, "not authorized for the topic") \
    X(GROUP_AUTHORIZATION_FAILED, 30, "not authorized for the group") \
    X(CLUSTER_AUTHORIZATION_FAILED, 31, "not authorized for the cluster") \
    X(INVALID_TIMESTAMP, 32, "a timestamp is outside the topic's bounds") \
    X(UNSUPPORTED_SASL_MECHANISM, 33, "the SASL mechanism is not enabled") \
    X(ILLEGAL_SASL_STATE, 34, "the request does not fit the state of authentication") \
    X(UNSUPPORTED_VERSION, 35, "this version of the request is not supported") \
    X(TOPIC_ALREADY_EXISTS, 36, "a topic of this name exists") \
    X(INVALID_PARTITIONS, 37, "the number of partitions is invalid") \
    X(INVALID_REPLICATION_FACTOR, 38, "the replication factor is not possible here") \
    X(INVALID_REPLICA_ASSIGNMENT, 39, "the replica assignment is invalid") \
    X(INVALID_CONFIG, 40, "a configuration value is invalid") \
    X(NOT_CONTROLLER, 41, "this broker is not the controller") \
    X(INVALID_REQUEST, 42, "the request contradicts itself or the protocol") \
    X(UNSUPPORTED_FOR_MESSAGE_FORMAT, 43, "the record format does not support this") \
    X(POLICY_VIOLATION, 44, "a configured policy forbids this") \
    X(OUT_OF_ORDER_SEQUENCE_NUMBER, 45, "the producer's sequence has a gap") \
    X(DUPLICATE_SEQUENCE_NUMBER, 46, "the producer's sequence was seen before") \
    X(INVALID_PRODUCER_EPOCH, 47, "the producer's epoch is too old") \
    X(INVALID_TXN_STATE, 48, "the transaction's state does not allow this") \
    X(INVALID_PRODUCER_ID_MAPPING, 49, "the producer id does not belong to the transactional id") \
    X(INVALID_TRANSACTION_TIMEOUT, 50, "the transaction timeout is above the broker's limit") \
    X(CONCURRENT_TRANSACTIONS, 51, "another operation on the transaction is in progress") \
    X(TRANSACTION_COORDINATOR_FENCED, 52, "a newer transaction coordinator exists") \
    X(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 53, "not authorized for the transactional id") \
    X(SECURITY_DISABLED, 54, "security is not enabled") \
    X(OPERATION_NOT_ATTEMPTED, 55, "not attempted because another part of the request failed") \
    X(KAFKA_STORAGE_ERROR, 56, "the log cannot be read or written") \
    X(LOG_DIR_NOT_FOUND, 57, "the log directory is not one of the broker's") \
    X(SASL_AUTHENTICATION_FAILED, 58, "authentication failed") \
    X(UNKNOWN_PRODUCER_ID, 59, "nothing is known of the producer id any more") \
    X(REASSIGNMENT_IN_PROGRESS, 60, "the partition is being reassigned") \
    X(DELEGATION_TOKEN_AUTH_DISABLED, 61, "delegation tokens are not enabled") \
    X(DELEGATION_TOKEN_NOT_FOUND, 62, "no such delegation token") \
    X(DELEGATION_TOKEN_OWNER_MISMATCH, 63, "neither owner nor renewer of the token") \
    X(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, 64, "no delegation tokens on this connection") \
    X(DELEGATION_TOKEN_AUTHORIZATION_FAILED, 65, "not authorized for the delegation token") \
    X(DELEGATION_TOKEN_EXPIRED, 66, "the delegation token has expired") \
    X(INVALID_PRINCIPAL_TYPE, 67, "the principal type is not supported") \
    X(NON_EMPTY_GROUP, 68, "the group has members") \
    X(GROUP_ID_NOT_FOUND, 69, "no such group") \
    X(FETCH_SESSION_ID_NOT_FOUND, 70, "no such fetch session") \
    X(INVALID_FETCH_SESSION_EPOCH, 71, "the epoch is not the fetch session's next") \
    X(LISTENER_NOT_FOUND, 72, "the leader has no listener of this name") \
    X(TOPIC_DELETION_DISABLED, 73, "deleting topics is disabled") \
    X(FENCED_LEADER_EPOCH, 74, "the leader epoch is older than the partition's") \
    X(UNKNOWN_LEADER_EPOCH, 75, "the leader epoch is newer than the partition's") \
    X(UNSUPPORTED_COMPRESSION_TYPE, 76, "the codec needs a newer version of the request") \
    X(STALE_BROKER_EPOCH, 77, "the broker epoch has changed") \
    X(OFFSET_NOT_AVAILABLE, 78, "a new leader does not know its high watermark yet") \
    X(MEMBER_ID_REQUIRED, 79, "join again with the member id given here") \
    X(PREFERRED_LEADER_NOT_AVAILABLE, 80, "the preferred leader is not available") \
    X(GROUP_MAX_SIZE_REACHED, 81, "the group is full") \
    X(FENCED_INSTANCE_ID, 82, "another member has taken over the group instance id") \
    X(ELIGIBLE_LEADERS_NOT_AVAILABLE, 83, "no replica may become leader") \
    X(ELECTION_NOT_NEEDED, 84, "the leader is already the right one") \
    X(NO_REASSIGNMENT_IN_PROGRESS, 85, "the partition is not being reassigned") \
    X(GROUP_SUBSCRIBED_TO_TOPIC, 86, "the group still subscribes to the topic") \
    X(INVALID_RECORD, 87, "a record failed validation") \
    X(UNSTABLE_OFFSET_COMMIT, 88, "the offset belongs to a transaction that is still open") \
    X(THROTTLING_QUOTA_EXCEEDED, 89, "a quota is exceeded: retry later") \
    X(PRODUCER_FENCED, 90, "a newer producer uses the transactional id") \
    X(RESOURCE_NOT_FOUND, 91, "the request names a resource that does not exist") \
    X(DUPLICATE_RESOURCE, 92, "the request names a resource twice") \
    X(UNACCEPTABLE_CREDENTIAL, 93, "the credential does not meet the requirements") \
    X(INCONSISTENT_VOTER_SET, 94, "sender or receiver is not an expected voter") \
    X(INVALID_UPDATE_VERSION, 95, "the update's version is invalid") \
    X(FEATURE_UPDATE_FAILED, 96, "the feature could not be updated") \
    X(PRINCIPAL_DESERIALIZATION_FAILURE, 97, "the forwarded principal cannot be read") \
    X(SNAPSHOT_NOT_FOUND, 98, "no such snapshot") \
    X(POSITION_OUT_OF_RANGE, 99, "the position is outside the snapshot") \
    X(UNKNOWN_TOPIC_ID, 100, "no topic has this id here") \
    X(DUPLICATE_BROKER_REGISTRATION, 101, "the broker id is in use") \
    X(BROKER_ID_NOT_REGISTERED, 102, "the broker id is not registered") \
    X(INCONSISTENT_TOPIC_ID, 103, "the topic id is not the log's") \
    X(INCONSISTENT_CLUSTER_ID, 104, "the cluster id is not this cluster's") \
    X(TRANSACTIONAL_ID_NOT_FOUND, 105, "no such transactional id") \
    X(FETCH_SESSION_TOPIC_ID_ERROR, 106, "the fetch session mixes topic names and ids") \
    X(INELIGIBLE_REPLICA, 107, "a replica may not join the in-sync set") \
    X(NEW_LEADER_ELECTED, 108, "the change was made, and the leader has changed") \
    X(OFFSET_MOVED_TO_TIERED_STORAGE, 109, "the offset is in tiered storage") \
    X(FENCED_MEMBER_EPOCH, 110, "the member is fenced: give up its partitions and rejoin") \
    X(UNRELEASED_INSTANCE_ID, 111, "the group instance id is still in use") \
    X(UNSUPPORTED_ASSIGNOR, 112, "the group does not support the assignor") \
    X(STALE_MEMBER_EPOCH, 113, "the member epoch is old: heartbeat, then retry") \
    X(MISMATCHED_ENDPOINT_TYPE, 114, "the request belongs to another kind of endpoint") \
    X(UNSUPPORTED_ENDPOINT_TYPE, 115, "the endpoint type is not supported") \
    X(UNKNOWN_CONTROLLER_ID, 116, "no controller has this id") \
    X(UNKNOWN_SUBSCRIPTION_ID, 117, "the telemetry subscription is unknown or outdated") \
    X(TELEMETRY_TOO_LARGE, 118, "the telemetry is larger than the broker accepts") \
    X(INVALID_REGISTRATION, 119, "the broker's registration is invalid") \
    X(TRANSACTION_ABORTABLE, 120, "the transaction failed: abort it and go on") \
    X(INVALID_RECORD_STATE, 121, "the record is not in a state to be acknowledged") \
    X(SHARE_SESSION_NOT_FOUND, 122, "no such share session") \
    X(INVALID_SHARE_SESSION_EPOCH, 123, "the epoch is not the share session's next") \
    X(FENCED_STATE_EPOCH, 124, "the state epoch of the share group does not match") \
    X(INVALID_VOTER_KEY, 125, "the voter key is not this replica's") \
    X(DUPLICATE_VOTER, 126, "the voter is in the set already") \
    X(VOTER_NOT_FOUND, 127, "the voter is not in the set") \
    X(INVALID_REGULAR_EXPRESSION, 128, "the regular expression is invalid") \
    X(REBOOTSTRAP_REQUIRED, 129, "the client's metadata is stale: bootstrap again") \
    X(STREAMS_INVALID_TOPOLOGY, 130, "the topology is invalid") \
    X(STREAMS_INVALID_TOPOLOGY_EPOCH, 131, "the topology epoch is invalid") \
    X(STREAMS_TOPOLOGY_FENCED, 132, "the topology epoch is outdated") \
    X(SHARE_SESSION_LIMIT_REACHED, 133, "there are too many share sessions")
/* clang-format on */

#define KAFKA_ERROR_ENUM(name, code, text) KAFKA_##name = (code),
enum kafka_error {
    KAFKA_ERROR_MAP(KAFKA_ERROR_ENUM) KAFKA_STORAGE_ERROR =
        KAFKA_KAFKA_STORAGE_ERROR /* the name without the stutter */
};
#undef KAFKA_ERROR_ENUM

/* Kafka's name of the code, e.g. "CORRUPT_MESSAGE"; "UNKNOWN_SERVER_ERROR" for any other number. */
const char *kafka_error_name(enum kafka_error error);

/* A short lower-case text, never NULL. */
const char *kafka_error_text(enum kafka_error error);

#endif
