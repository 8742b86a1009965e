/*
 * Two walks over a layout: one adds up the exact size, one writes. Both judge nulls, so a message
 * that was measured can be written. The recursion follows the schema only.
 */
#include "twinlog/core/assert.h"

#include "straight.h"

/* A null where the version allows none, or a string too long, is found before a byte is written. */
static status size_struct(const struct layout *layout, const uint8_t *from, uint64_t *size);
static status encode_struct(struct message_writer *w, const struct layout *layout,
                            const uint8_t *from);

static int32_t array_count(const struct field *field, const uint8_t *from)
{
    int32_t count;
    memcpy(&count, from + field->count_offset, sizeof(count));
    return count;
}

static const uint8_t *pointer_at(const uint8_t *place)
{
    const uint8_t *pointer;
    memcpy(&pointer, place, sizeof(pointer));
    return pointer;
}

/* Size of the length prefix; see decode_length. */
static unsigned length_size(bool flexible, enum field_kind kind, uint32_t length_coded)
{
    if (flexible) {
        return varint_size_u32(length_coded);
    }
    return kind == FIELD_STRING ? 2 : 4;
}

static status size_view(bool flexible, enum field_kind kind, bool nullable, struct bytes view,
                        uint64_t *size)
{
    if (bytes_is_null(view)) {
        *size += length_size(flexible, kind, 0);
        return nullable ? OK : STATUS(INVALID);
    }
    if (view.size > (kind == FIELD_STRING ? STRING_SIZE_MAX : (uint32_t)INT32_MAX)) {
        return STATUS(TOO_LARGE);
    }
    *size += (uint64_t)length_size(flexible, kind, view.size + 1) + view.size;
    return OK;
}

static status size_array(bool flexible, const struct field *field, const uint8_t *from,
                         uint64_t *size)
{
    int32_t count = array_count(field, from);
    if (count < 0) {
        *size += length_size(flexible, FIELD_ARRAY, 0);
        return field->nullable ? OK : STATUS(INVALID);
    }
    *size += length_size(flexible, FIELD_ARRAY, (uint32_t)count + 1);
    enum field_kind kind = field->element_kind;
    if (kind < FIELD_STRING) {
        *size += (uint64_t)count * field_scalar_size(kind);
        return OK;
    }
    const uint8_t *items = pointer_at(from + field->offset);
    for (int32_t i = 0; i < count; i++, items += field->element_size) {
        if (kind == FIELD_STRUCT) {
            TRY(size_struct(field->layout, items, size));
        } else {
            const struct bytes *view = (const struct bytes *)(const void *)items;
            TRY(size_view(flexible, kind, false, *view, size));
        }
    }
    return OK;
}

static status size_struct_pointer(const struct field *field, const uint8_t *place, uint64_t *size)
{
    const uint8_t *pointer = pointer_at(place);
    *size += field->nullable ? 1 : 0;
    if (pointer == NULL) {
        return field->nullable ? OK : STATUS(INVALID);
    }
    return size_struct(field->layout, pointer, size);
}

static status size_field(bool flexible, const struct field *field, const uint8_t *from,
                         uint64_t *size)
{
    enum field_kind kind = field->kind;
    const uint8_t *place = from + field->offset;
    switch (kind) {
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS:
        return size_view(flexible, kind, field->nullable,
                         *(const struct bytes *)(const void *)place, size);
    case FIELD_STRUCT:
        return size_struct(field->layout, place, size);
    case FIELD_STRUCT_POINTER:
        return size_struct_pointer(field, place, size);
    case FIELD_ARRAY:
        return size_array(flexible, field, from, size);
    default:
        *size += field_scalar_size(kind);
        return OK;
    }
}

static bool struct_equals_default(const struct layout *layout, const uint8_t *from,
                                  const uint8_t *defaults);

/* Whether a tagged field needs not be sent. */
static bool field_equals_default(const struct field *field, const uint8_t *from,
                                 const uint8_t *defaults)
{
    const uint8_t *a = from + field->offset;
    const uint8_t *b = defaults + field->offset;
    switch ((enum field_kind)field->kind) {
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS:
        return bytes_equal(*(const struct bytes *)(const void *)a,
                           *(const struct bytes *)(const void *)b);
    case FIELD_STRUCT:
        return struct_equals_default(field->layout, a, b);
    case FIELD_STRUCT_POINTER:
        return pointer_at(a) == NULL;
    case FIELD_ARRAY:
        return array_count(field, from) == array_count(field, defaults);
    default:
        return memcmp(a, b, field->element_size) == 0;
    }
}

static bool struct_equals_default(const struct layout *layout, const uint8_t *from,
                                  const uint8_t *defaults)
{
    for (uint16_t i = 0; i < layout->field_count; i++) {
        if (!field_equals_default(&layout->fields[i], from, defaults)) {
            return false;
        }
    }
    for (uint16_t i = 0; i < layout->tagged_count; i++) {
        if (!field_equals_default(&layout->tagged[i], from, defaults)) {
            return false;
        }
    }
    return true;
}

static status size_tagged_fields(const struct layout *layout, const uint8_t *from, uint64_t *size)
{
    uint32_t count = 0;
    for (uint16_t i = 0; i < layout->tagged_count; i++) {
        const struct field *field = &layout->tagged[i];
        if (field_equals_default(field, from, layout->defaults)) {
            continue;
        }
        uint64_t field_size = 0;
        TRY(size_field(true, field, from, &field_size));
        if (field_size > INT32_MAX) {
            return STATUS(TOO_LARGE);
        }
        *size += varint_size_u32(field->tag) + varint_size_u32((uint32_t)field_size) + field_size;
        count++;
    }
    *size += varint_size_u32(count);
    return OK;
}

static status size_struct(const struct layout *layout, const uint8_t *from, uint64_t *size)
{
    for (uint16_t i = 0; i < layout->field_count; i++) {
        TRY(size_field(layout->flexible, &layout->fields[i], from, size));
    }
    return layout->flexible ? size_tagged_fields(layout, from, size) : OK;
}

status message_size(const struct message_type *type, int16_t version, const void *message,
                    uint32_t *size)
{
    const struct layout *layout = message_type_layout(type, version);
    if (layout == NULL) {
        return STATUS(UNSUPPORTED);
    }
    uint64_t total = 0;
    TRY(size_struct(layout, message, &total));
    if (total > INT32_MAX) {
        return STATUS(TOO_LARGE);
    }
    *size = (uint32_t)total;
    return OK;
}

/* Room for `size` more bytes in the buffer, which are then counted as used; NULL when full. */
static inline uint8_t *writer_take(struct message_writer *w, uint32_t size)
{
    if (w->capacity - w->size < size) {
        return NULL;
    }
    uint8_t *place = w->buffer + w->size;
    w->size += size;
    return place;
}

#define VARINT_ONE_BYTE_END 0x80u

static status put_varint(struct message_writer *w, uint32_t value)
{
    if (value < VARINT_ONE_BYTE_END) {
        /* Nearly all: lengths of names, counts, the end of tagged fields. */
        uint8_t *only = writer_take(w, 1);
        if (only == NULL) {
            return STATUS(FULL);
        }
        *only = (uint8_t)value;
        return OK;
    }
    uint8_t *place = writer_take(w, varint_size_u32(value));
    if (place == NULL) {
        return STATUS(FULL);
    }
    varint_write_u32(place, value);
    return OK;
}

/* `length` -1 is null. */
static status put_length(struct message_writer *w, bool flexible, enum field_kind kind,
                         int32_t length)
{
    if (flexible) {
        return put_varint(w, (uint32_t)length + 1);
    }
    uint8_t *place = writer_take(w, kind == FIELD_STRING ? 2 : 4);
    if (place == NULL) {
        return STATUS(FULL);
    }
    if (kind == FIELD_STRING) {
        store_be16(place, (uint16_t)length);
    } else {
        store_be32(place, (uint32_t)length);
    }
    return OK;
}

/* Closes the open range of the buffer, if it holds anything. */
static void close_range(struct message_writer *w)
{
    if (w->size > w->range_start) {
        ASSERT(w->range_count < w->range_count_max);
        w->ranges[w->range_count++] =
            (struct message_range){w->buffer + w->range_start, w->size - w->range_start};
        w->range_start = w->size;
    }
}

/* One range before, one for the records, and one kept for what follows. */
static bool may_reference(const struct message_writer *w, uint32_t size)
{
    return w->ranges != NULL && size > w->copy_max && w->range_count + 3 <= w->range_count_max;
}

static status put_view(struct message_writer *w, bool flexible, enum field_kind kind, bool nullable,
                       struct bytes view)
{
    if (bytes_is_null(view)) {
        return nullable ? put_length(w, flexible, kind, -1) : STATUS(INVALID);
    }
    if (view.size > (kind == FIELD_STRING ? STRING_SIZE_MAX : (uint32_t)INT32_MAX)) {
        return STATUS(TOO_LARGE);
    }
    TRY(put_length(w, flexible, kind, (int32_t)view.size));
    if (kind == FIELD_RECORDS && may_reference(w, view.size)) {
        close_range(w);
        w->ranges[w->range_count++] = (struct message_range){view.data, view.size};
        return OK;
    }
    uint8_t *place = writer_take(w, view.size);
    if (place == NULL) {
        return STATUS(FULL);
    }
    memcpy(place, view.data, view.size);
    return OK;
}

static status put_scalar(struct message_writer *w, enum field_kind kind, const void *from)
{
    uint16_t value16;
    uint32_t value32;
    uint64_t value64;
    uint8_t *place = writer_take(w, field_scalar_size(kind));
    if (place == NULL) {
        return STATUS(FULL);
    }
    switch (kind) {
    case FIELD_BOOL:
    case FIELD_INT8:
        memcpy(place, from, 1);
        break;
    case FIELD_INT16:
    case FIELD_UINT16:
        memcpy(&value16, from, sizeof(value16));
        store_be16(place, value16);
        break;
    case FIELD_INT32:
    case FIELD_UINT32:
        memcpy(&value32, from, sizeof(value32));
        store_be32(place, value32);
        break;
    case FIELD_INT64:
    case FIELD_FLOAT64:
        memcpy(&value64, from, sizeof(value64));
        store_be64(place, value64);
        break;
    default:
        ASSERT(kind == FIELD_UUID);
        memcpy(place, from, sizeof(struct uuid));
        break;
    }
    return OK;
}

static status encode_array(struct message_writer *w, bool flexible, const struct field *field,
                           const uint8_t *from)
{
    int32_t count = array_count(field, from);
    if (count < 0) {
        return field->nullable ? put_length(w, flexible, FIELD_ARRAY, -1) : STATUS(INVALID);
    }
    TRY(put_length(w, flexible, FIELD_ARRAY, count));
    enum field_kind kind = field->element_kind;
    const uint8_t *items = pointer_at(from + field->offset);
    for (int32_t i = 0; i < count; i++, items += field->element_size) {
        if (kind == FIELD_STRUCT) {
            TRY(encode_struct(w, field->layout, items));
        } else if (kind < FIELD_STRING) {
            TRY(put_scalar(w, kind, items));
        } else {
            const struct bytes *view = (const struct bytes *)(const void *)items;
            TRY(put_view(w, flexible, kind, false, *view));
        }
    }
    return OK;
}

static status encode_struct_pointer(struct message_writer *w, const struct field *field,
                                    const uint8_t *place)
{
    const uint8_t *pointer = pointer_at(place);
    if (pointer == NULL && !field->nullable) {
        return STATUS(INVALID);
    }
    if (field->nullable) {
        int8_t mark = pointer == NULL ? -1 : 1;
        TRY(put_scalar(w, FIELD_INT8, &mark));
    }
    return pointer == NULL ? OK : encode_struct(w, field->layout, pointer);
}

static status encode_field(struct message_writer *w, bool flexible, const struct field *field,
                           const uint8_t *from)
{
    enum field_kind kind = field->kind;
    const uint8_t *place = from + field->offset;
    switch (kind) {
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS:
        return put_view(w, flexible, kind, field->nullable,
                        *(const struct bytes *)(const void *)place);
    case FIELD_STRUCT:
        return encode_struct(w, field->layout, place);
    case FIELD_STRUCT_POINTER:
        return encode_struct_pointer(w, field, place);
    case FIELD_ARRAY:
        return encode_array(w, flexible, field, from);
    default:
        return put_scalar(w, kind, place);
    }
}

static status encode_tagged_fields(struct message_writer *w, const struct layout *layout,
                                   const uint8_t *from)
{
    uint32_t count = 0;
    for (uint16_t i = 0; i < layout->tagged_count; i++) {
        count += field_equals_default(&layout->tagged[i], from, layout->defaults) ? 0 : 1;
    }
    TRY(put_varint(w, count));
    for (uint16_t i = 0; count > 0 && i < layout->tagged_count; i++) {
        const struct field *field = &layout->tagged[i];
        if (field_equals_default(field, from, layout->defaults)) {
            continue;
        }
        uint64_t size = 0;
        TRY(size_field(true, field, from, &size));
        if (size > INT32_MAX) {
            return STATUS(TOO_LARGE);
        }
        TRY(put_varint(w, field->tag));
        TRY(put_varint(w, (uint32_t)size));
        TRY(encode_field(w, true, field, from));
    }
    return OK;
}

static status encode_struct(struct message_writer *w, const struct layout *layout,
                            const uint8_t *from)
{
    for (uint16_t i = 0; i < layout->field_count; i++) {
        TRY(encode_field(w, layout->flexible, &layout->fields[i], from));
    }
    return layout->flexible ? encode_tagged_fields(w, layout, from) : OK;
}

/* False: nothing is written. */
static bool encode_straight(const struct message_type *type, int16_t version, const void *message,
                            struct message_writer *writer)
{
    if (type->straight_encode == NULL || writer->ranges != NULL) {
        return false; /* Straight-line code copies all it writes. */
    }
    struct straight_writer w = {
        .at = writer->buffer + writer->size,
        .end = writer->buffer + writer->capacity,
    };
    if (!type->straight_encode(&w, version, message)) {
        return false;
    }
    writer->size = (uint32_t)(w.at - writer->buffer);
    return true;
}

status message_encode(const struct message_type *type, int16_t version, const void *message,
                      struct message_writer *writer)
{
    const struct layout *layout = message_type_layout(type, version);
    if (layout == NULL) {
        return STATUS(UNSUPPORTED);
    }
    if (encode_straight(type, version, message, writer)) {
        return OK;
    }
    return encode_struct(writer, layout, message);
}

void message_writer_finish(struct message_writer *writer)
{
    if (writer->ranges != NULL) {
        close_range(writer);
    }
}
