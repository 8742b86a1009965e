/*
 * All messages of the schema as C structs, their `<message>_type` tables, and for each struct a
 * constant `<struct>_default`. Start every struct you fill from its default: Kafka's defaults are
 * often not zero (-1, null, an empty string), and a tagged field is sent when it differs from it.
 *
 *     enum api_key        API_PRODUCE, ...: the keys of the schema
 *     enum record_type    RECORD_TYPE_TOPIC, ...: the numbers of the internal records
 */
#ifndef TWINLOG_PROTOCOL_MESSAGES_H
#define TWINLOG_PROTOCOL_MESSAGES_H

#include "twinlog/protocol/messages_generated.h"

#endif
