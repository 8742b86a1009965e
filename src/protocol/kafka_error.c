#include "twinlog/protocol/kafka_error.h"

const char *kafka_error_name(enum kafka_error error)
{
    switch (error) {
#define KAFKA_ERROR_NAME(name, code, text)                                                         \
    case KAFKA_##name:                                                                             \
        return #name;
        KAFKA_ERROR_MAP(KAFKA_ERROR_NAME)
#undef KAFKA_ERROR_NAME
    }
    return "UNKNOWN_SERVER_ERROR";
}

const char *kafka_error_text(enum kafka_error error)
{
    switch (error) {
#define KAFKA_ERROR_TEXT(name, code, text)                                                         \
    case KAFKA_##name:                                                                             \
        return text;
        KAFKA_ERROR_MAP(KAFKA_ERROR_TEXT)
#undef KAFKA_ERROR_TEXT
    }
    return "unexpected error in the broker";
}
