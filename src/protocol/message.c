/* Lookups over the generated tables, and the request header. */
#include "twinlog/core/assert.h"

#include "table.h"

const char *message_type_name(const struct message_type *type)
{
    return type->name;
}

size_t message_type_size(const struct message_type *type)
{
    return type->layouts[0]->size;
}

const struct layout *message_type_layout(const struct message_type *type, int16_t version)
{
    if (version < type->version_min || version > type->version_max) {
        return NULL;
    }
    return type->layouts[version - type->version_min];
}

const struct api *api_find(int16_t key)
{
    size_t low = 0;
    size_t high = protocol_api_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (protocol_apis[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < protocol_api_count && protocol_apis[low].key == key ? &protocol_apis[low] : NULL;
}

const struct api *api_all(size_t *count)
{
    *count = protocol_api_count;
    return protocol_apis;
}

/* KIP-511: a client that does not know our versions yet must be able to read the answer. */
#define API_VERSIONS_KEY 18

int api_response_header_version(const struct api *api, int16_t version)
{
    return api->key != API_VERSIONS_KEY && version >= api->flexible_from ? 1 : 0;
}

/*
 * Request header, big-endian:
 *
 *      0  int16  api key         |  8  int16  size of the client id, -1 for null
 *      2  int16  api version     | 10  client id
 *      4  int32  correlation id  |     version 2 only: tagged fields
 */
#define REQUEST_HEADER_SIZE_MIN 10u

/* Skips tagged fields: the header has none that the broker reads. */
static status skip_tagged_fields(const uint8_t **at, const uint8_t *end)
{
    uint32_t count;
    const uint8_t *next = varint_read_u32(*at, end, &count);
    if (next == NULL) {
        return STATUS(TRUNCATED);
    }
    while (count > 0) {
        uint32_t tag;
        uint32_t size;
        next = varint_read_u32(next, end, &tag);
        next = next == NULL ? NULL : varint_read_u32(next, end, &size);
        if (next == NULL || size > (size_t)(end - next)) {
            return STATUS(TRUNCATED);
        }
        next += size;
        count--;
    }
    *at = next;
    return OK;
}

/* An unknown version is read as version 1, so that ApiVersions can answer any client. */
static bool header_is_flexible(const struct request_header *header)
{
    const struct api *api = api_find(header->api_key);
    return api != NULL && header->api_version >= api->flexible_from &&
           header->api_version <= api->request->version_max;
}

status request_header_decode(struct bytes frame, struct request_header *header)
{
    if (frame.size < REQUEST_HEADER_SIZE_MIN) {
        return STATUS(TRUNCATED);
    }
    const uint8_t *at = frame.data;
    const uint8_t *end = at + frame.size;
    header->api_key = (int16_t)load_be16(at);
    header->api_version = (int16_t)load_be16(at + 2);
    header->correlation_id = (int32_t)load_be32(at + 4);
    int16_t client_id_size = (int16_t)load_be16(at + 8);
    at += REQUEST_HEADER_SIZE_MIN;
    if (client_id_size < -1 || header->api_key < 0 || header->api_version < 0) {
        return STATUS(INVALID);
    }
    header->client_id = BYTES_NULL;
    if (client_id_size >= 0) {
        if (client_id_size > end - at) {
            return STATUS(TRUNCATED);
        }
        header->client_id = (struct bytes){at, (uint32_t)client_id_size};
        at += client_id_size;
    }
    if (header_is_flexible(header)) {
        TRY(skip_tagged_fields(&at, end));
    }
    header->size = (uint32_t)(at - frame.data);
    return OK;
}
