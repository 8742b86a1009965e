#include "overrides.h"

#include <stdlib.h>

static struct bytes text_keep(uint8_t **to, struct bytes text)
{
    struct bytes kept = {*to, text.size};
    if (text.size > 0) {
        memcpy(*to, text.data, text.size);
    }
    *to += text.size;
    return kept;
}

status overrides_set(struct overrides *overrides, const struct topic_record_config *from,
                     int32_t count)
{
    struct overrides made = {.count = MAX(count, 0)};
    size_t size = 0;
    for (int32_t i = 0; i < made.count; i++) {
        size += sizeof(*made.items) + from[i].name.size + from[i].value.size;
    }
    if (made.count > 0) {
        made.items = calloc(1, size);
        if (made.items == NULL) {
            return STATUS(NO_MEMORY);
        }
    }
    uint8_t *text = made.items == NULL ? NULL : (uint8_t *)(made.items + made.count);
    for (int32_t i = 0; i < made.count; i++) {
        made.items[i].name = text_keep(&text, from[i].name);
        made.items[i].value = text_keep(&text, from[i].value);
    }
    overrides_free(overrides);
    *overrides = made;
    return OK;
}

void overrides_free(struct overrides *overrides)
{
    free(overrides->items);
    *overrides = (struct overrides){0};
}

const struct topic_record_config *overrides_find(const struct overrides *overrides,
                                                 struct bytes name)
{
    for (int32_t i = 0; i < overrides->count; i++) {
        if (bytes_equal(overrides->items[i].name, name)) {
            return &overrides->items[i];
        }
    }
    return NULL;
}
