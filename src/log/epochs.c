#include "epochs.h"

#include <stdlib.h>

#include "twinlog/core/assert.h"

#define CAPACITY_FIRST 4u

bool epochs_reserve(struct epochs *epochs)
{
    if (epochs->count < epochs->capacity) {
        return true;
    }
    uint32_t capacity = MAX(CAPACITY_FIRST, 2 * epochs->capacity);
    struct epoch_start *items = realloc(epochs->items, capacity * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    epochs->items = items;
    epochs->capacity = capacity;
    return true;
}

void epochs_add(struct epochs *epochs, int32_t epoch, int64_t offset)
{
    if (epochs->count > 0 && epochs->items[epochs->count - 1].epoch >= epoch) {
        return;
    }
    /* One that begins here, after everything was deleted, has no batches any more. */
    while (epochs->count > 0 && epochs->items[epochs->count - 1].offset >= offset) {
        epochs->count--;
    }
    ASSERT(epochs->count < epochs->capacity);
    epochs->items[epochs->count++] = (struct epoch_start){epoch, offset};
}

void epochs_trim(struct epochs *epochs, int64_t log_start)
{
    uint32_t gone = 0;
    while (gone + 1 < epochs->count && epochs->items[gone + 1].offset <= log_start) {
        gone++;
    }
    if (gone > 0) {
        epochs->count -= gone;
        memmove(epochs->items, epochs->items + gone, epochs->count * sizeof(*epochs->items));
    }
    if (epochs->count > 0) {
        epochs->items[0].offset = MAX(epochs->items[0].offset, log_start);
    }
}

/* How many entries have an epoch at or below it. */
static uint32_t entries_up_to(const struct epochs *epochs, int32_t epoch)
{
    uint32_t low = 0;
    uint32_t high = epochs->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (epochs->items[middle].epoch <= epoch) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool epochs_find_end(const struct epochs *epochs, int32_t epoch, int32_t latest,
                     int64_t latest_offset, struct epoch_start *end)
{
    if (epoch >= latest) {
        return false;
    }
    uint32_t count = entries_up_to(epochs, epoch);
    /* As Kafka: an epoch before all that is known ends where the first of those begins. */
    end->epoch = count > 0 ? epochs->items[count - 1].epoch : epoch;
    end->offset = count < epochs->count ? epochs->items[count].offset : latest_offset;
    return true;
}

int32_t epochs_at(const struct epochs *epochs, int64_t offset, int32_t latest)
{
    for (uint32_t i = epochs->count; i > 0; i--) {
        if (epochs->items[i - 1].offset <= offset) {
            return epochs->items[i - 1].epoch;
        }
    }
    return latest;
}

uint8_t *epochs_encode(const struct epochs *epochs, int64_t offset_max, uint8_t *to,
                       uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < epochs->count && epochs->items[i].offset < offset_max; i++) {
        store_le32(to, (uint32_t)epochs->items[i].epoch);
        store_le64(to + 4, (uint64_t)epochs->items[i].offset);
        to += EPOCHS_ENTRY_SIZE;
        (*count)++;
    }
    return to;
}

status epochs_decode(struct bytes *input, uint32_t count, int64_t offset_max, struct epochs *epochs)
{
    *epochs = (struct epochs){0};
    if (count > input->size / EPOCHS_ENTRY_SIZE) {
        return STATUS(TRUNCATED);
    }
    if (count == 0) {
        return OK;
    }
    epochs->items = malloc(count * sizeof(*epochs->items));
    if (epochs->items == NULL) {
        return STATUS(NO_MEMORY);
    }
    epochs->capacity = count;
    for (; epochs->count < count; epochs->count++) {
        struct epoch_start *item = &epochs->items[epochs->count];
        item->epoch = (int32_t)load_le32(input->data);
        item->offset = (int64_t)load_le64(input->data + 4);
        bool follows =
            epochs->count == 0 || (item->epoch > item[-1].epoch && item->offset > item[-1].offset);
        if (!follows || item->offset < 0 || item->offset > offset_max) {
            epochs_fini(epochs);
            return STATUS(INVALID);
        }
        input->data += EPOCHS_ENTRY_SIZE;
        input->size -= EPOCHS_ENTRY_SIZE;
    }
    return OK;
}

void epochs_fini(struct epochs *epochs)
{
    free(epochs->items);
    *epochs = (struct epochs){0};
}
