/* The one place where statuses and verdicts become Kafka's errors. */
#include "shard.h"

enum kafka_error error_of_status(status result)
{
    switch (result.code) {
    case STATUS_OK:
        return KAFKA_NONE;
    case STATUS_NOT_FOUND:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    case STATUS_EXISTS:
        return KAFKA_TOPIC_ALREADY_EXISTS;
    case STATUS_FULL:
    case STATUS_TIMEOUT:
        return KAFKA_REQUEST_TIMED_OUT;
    case STATUS_TOO_LARGE:
        return KAFKA_RECORD_LIST_TOO_LARGE;
    case STATUS_CORRUPT:
        return KAFKA_CORRUPT_MESSAGE; /* Consumers tell their callers of it and retry the others. */
    case STATUS_IO:
    case STATUS_NO_SPACE:
    case STATUS_READ_ONLY:
    case STATUS_PERMISSION:
    case STATUS_OFFLINE:
    case STATUS_CLOSED:
    case STATUS_CANCELLED:
        return KAFKA_STORAGE_ERROR;
    default:
        return KAFKA_UNKNOWN_SERVER_ERROR;
    }
}

enum kafka_error error_of_verdict(enum log_verdict verdict)
{
    switch (verdict) {
    case LOG_APPENDED:
    case LOG_DUPLICATE:
        return KAFKA_NONE;
    case LOG_OUT_OF_ORDER_SEQUENCE:
        return KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER;
    case LOG_INVALID_PRODUCER_EPOCH:
        return KAFKA_INVALID_PRODUCER_EPOCH;
    }
    return KAFKA_UNKNOWN_SERVER_ERROR;
}

enum kafka_error error_of_leader_epoch(int32_t current_leader_epoch, int32_t leader_epoch)
{
    if (current_leader_epoch < 0 || current_leader_epoch == leader_epoch) {
        return KAFKA_NONE;
    }
    return current_leader_epoch < leader_epoch ? KAFKA_FENCED_LEADER_EPOCH
                                               : KAFKA_UNKNOWN_LEADER_EPOCH;
}
