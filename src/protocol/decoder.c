/*
 * Walks a layout over the bytes of one message. The recursion follows the schema, whose depth is
 * fixed at build time, never the bytes.
 */
#include "twinlog/core/assert.h"

#include "straight.h"

struct decoder {
    const uint8_t *at;
    const uint8_t *end;
    struct arena *arena;
    bool flexible;
};

static status decode_struct(struct decoder *d, const struct layout *layout, uint8_t *out);

static size_t bytes_left(const struct decoder *d)
{
    return (size_t)(d->end - d->at);
}

/* Most varints on the wire are one byte: lengths of names, counts, tags. */
static inline status decode_varint(struct decoder *d, uint32_t *value)
{
    if (d->at < d->end && *d->at < 0x80) {
        *value = *d->at++;
        return OK;
    }
    const uint8_t *next = varint_read_u32(d->at, d->end, value);
    if (next == NULL) {
        return bytes_left(d) >= 5 ? STATUS(INVALID) : STATUS(TRUNCATED);
    }
    d->at = next;
    return OK;
}

/*
 * Reads the length of a string, bytes, records or an array; -1 is null. Flexible versions send
 * length + 1 as a varint; the older ones an int16 for strings, an int32 for the rest.
 */
static inline status decode_length(struct decoder *d, enum field_kind kind, bool nullable,
                                   int32_t *length)
{
    if (d->flexible) {
        uint32_t coded;
        TRY(decode_varint(d, &coded));
        *length = (int32_t)(coded - 1);
        if (coded > (uint32_t)INT32_MAX + 1) {
            return STATUS(INVALID);
        }
    } else {
        size_t size = kind == FIELD_STRING ? 2 : 4;
        if (bytes_left(d) < size) {
            return STATUS(TRUNCATED);
        }
        *length = kind == FIELD_STRING ? (int16_t)load_be16(d->at) : (int32_t)load_be32(d->at);
        d->at += size;
    }
    if (*length < -1 || (*length == -1 && !nullable)) {
        return STATUS(INVALID);
    }
    if (kind == FIELD_STRING && *length > (int32_t)STRING_SIZE_MAX) {
        return STATUS(INVALID);
    }
    return OK;
}

static inline status decode_view(struct decoder *d, enum field_kind kind, bool nullable,
                                 struct bytes *view)
{
    int32_t length;
    TRY(decode_length(d, kind, nullable, &length));
    if (length < 0) {
        *view = BYTES_NULL;
        return OK;
    }
    if ((size_t)length > bytes_left(d)) {
        return STATUS(TRUNCATED);
    }
    *view = (struct bytes){d->at, (uint32_t)length};
    d->at += length;
    return OK;
}

/* Everything of fixed size; the caller has checked that the bytes are there. */
static inline void decode_scalar(const uint8_t *from, enum field_kind kind, void *out)
{
    uint16_t value16;
    uint32_t value32;
    uint64_t value64;
    switch (kind) {
    case FIELD_BOOL:
        *(bool *)out = *from != 0;
        break;
    case FIELD_INT8:
        memcpy(out, from, 1);
        break;
    case FIELD_INT16:
    case FIELD_UINT16:
        value16 = load_be16(from);
        memcpy(out, &value16, sizeof(value16));
        break;
    case FIELD_INT32:
    case FIELD_UINT32:
        value32 = load_be32(from);
        memcpy(out, &value32, sizeof(value32));
        break;
    case FIELD_INT64:
    case FIELD_FLOAT64:
        value64 = load_be64(from);
        memcpy(out, &value64, sizeof(value64));
        break;
    default:
        ASSERT(kind == FIELD_UUID);
        memcpy(out, from, sizeof(struct uuid));
        break;
    }
}

static status decode_elements(struct decoder *d, const struct field *field, uint8_t *items,
                              int32_t count)
{
    enum field_kind kind = field->element_kind;
    if (kind < FIELD_STRING) {
        size_t size = field_scalar_size(kind);
        for (int32_t i = 0; i < count; i++) {
            decode_scalar(d->at, kind, items);
            d->at += size;
            items += field->element_size;
        }
        return OK;
    }
    for (int32_t i = 0; i < count; i++) {
        if (kind == FIELD_STRUCT) {
            TRY(decode_struct(d, field->layout, items));
        } else {
            TRY(decode_view(d, kind, false, (struct bytes *)(void *)items));
        }
        items += field->element_size;
    }
    return OK;
}

/* The count is believed only as far as the bytes that are left could hold it. */
static status decode_array(struct decoder *d, const struct field *field, uint8_t *out)
{
    int32_t count;
    TRY(decode_length(d, FIELD_ARRAY, field->nullable, &count));
    void **items = (void **)(void *)(out + field->offset);
    memcpy(out + field->count_offset, &count, sizeof(count));
    *items = NULL;
    if (count <= 0) {
        return OK;
    }
    if ((size_t)count > bytes_left(d) / field->element_size_min) {
        return STATUS(TRUNCATED);
    }
    *items = arena_alloc(d->arena, (size_t)count * field->element_size);
    if (*items == NULL) {
        return STATUS(TOO_LARGE);
    }
    return decode_elements(d, field, *items, count);
}

/* A nullable struct is led by an int8: negative for null. */
static status decode_struct_pointer(struct decoder *d, const struct field *field, void **out)
{
    *out = NULL;
    if (field->nullable) {
        if (bytes_left(d) < 1) {
            return STATUS(TRUNCATED);
        }
        if ((int8_t)*d->at++ < 0) {
            return OK;
        }
    }
    *out = arena_alloc(d->arena, field->layout->size);
    if (*out == NULL) {
        return STATUS(TOO_LARGE);
    }
    return decode_struct(d, field->layout, *out);
}

static status decode_field(struct decoder *d, const struct field *field, uint8_t *out)
{
    enum field_kind kind = field->kind;
    void *place = out + field->offset;
    switch (kind) {
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS:
        return decode_view(d, kind, field->nullable, place);
    case FIELD_STRUCT:
        return decode_struct(d, field->layout, place);
    case FIELD_STRUCT_POINTER:
        return decode_struct_pointer(d, field, place);
    case FIELD_ARRAY:
        return decode_array(d, field, out);
    default:
        break;
    }
    if (bytes_left(d) < field_scalar_size(kind)) {
        return STATUS(TRUNCATED);
    }
    decode_scalar(d->at, kind, place);
    d->at += field_scalar_size(kind);
    return OK;
}

static const struct field *find_tagged(const struct layout *layout, uint32_t tag)
{
    for (uint16_t i = 0; i < layout->tagged_count; i++) {
        if (layout->tagged[i].tag == tag) {
            return &layout->tagged[i];
        }
    }
    return NULL;
}

/* KIP-482. A known field must fill its size exactly; an unknown one is skipped. */
static status decode_tagged_fields(struct decoder *d, const struct layout *layout, uint8_t *out)
{
    uint32_t count;
    TRY(decode_varint(d, &count));
    for (; count > 0; count--) {
        uint32_t tag;
        uint32_t size;
        TRY(decode_varint(d, &tag));
        TRY(decode_varint(d, &size));
        if (size > bytes_left(d)) {
            return STATUS(TRUNCATED);
        }
        const struct field *field = find_tagged(layout, tag);
        if (field == NULL) {
            d->at += size;
            continue;
        }
        const uint8_t *end = d->end;
        d->end = d->at + size;
        TRY(decode_field(d, field, out));
        if (d->at != d->end) {
            return STATUS(INVALID);
        }
        d->end = end;
    }
    return OK;
}

static status decode_struct(struct decoder *d, const struct layout *layout, uint8_t *out)
{
    memcpy(out, layout->defaults, layout->size);
    /* By index: a layout without fields has no table to point into. */
    for (uint32_t i = 0; i < layout->field_count; i++) {
        TRY(decode_field(d, &layout->fields[i], out));
    }
    return layout->flexible ? decode_tagged_fields(d, layout, out) : OK;
}

/* False: not decoded, and *input is as it was. */
static bool decode_straight(const struct message_type *type, int16_t version, struct bytes *input,
                            struct arena *arena, void *message)
{
    if (type->straight_decode == NULL || input->data == NULL) {
        return false;
    }
    struct straight_reader r = {
        .at = input->data,
        .end = input->data + input->size,
        .arena = arena,
        .elements_left = STRAIGHT_ELEMENTS_MAX,
    };
    if (!type->straight_decode(&r, version, message)) {
        return false;
    }
    *input = (struct bytes){r.at, (uint32_t)(r.end - r.at)};
    return true;
}

status message_decode_prefix(const struct message_type *type, int16_t version, struct bytes *input,
                             struct arena *arena, void *message)
{
    static const uint8_t nothing[1];
    const struct layout *layout = message_type_layout(type, version);
    if (layout == NULL) {
        return STATUS(UNSUPPORTED);
    }
    if (decode_straight(type, version, input, arena, message)) {
        return OK;
    }
    struct decoder d = {.arena = arena, .flexible = layout->flexible};
    d.at = input->data == NULL ? nothing : input->data;
    d.end = d.at + input->size;
    TRY(decode_struct(&d, layout, message));
    *input = (struct bytes){d.at, (uint32_t)bytes_left(&d)};
    return OK;
}

status message_decode(const struct message_type *type, int16_t version, struct bytes input,
                      struct arena *arena, void *message)
{
    TRY(message_decode_prefix(type, version, &input, arena, message));
    return input.size == 0 ? OK : STATUS(INVALID);
}
