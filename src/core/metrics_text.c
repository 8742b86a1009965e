/* Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/ */
#include "twinlog/core/metrics_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE_FIRST 16384u

/* Room for `size` bytes and a NUL. */
static bool text_reserve(struct metrics_text *text, size_t size)
{
    size_t needed = text->size + size + 1;
    if (text->failed || needed <= text->capacity) {
        return !text->failed;
    }
    size_t capacity = MAX(MAX(2 * text->capacity, needed), TEXT_SIZE_FIRST);
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

PRINTF_LIKE(2, 3)
static void text_print(struct metrics_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0 || !text_reserve(text, (size_t)size)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text->data + text->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    text->size += (size_t)size;
}

void metrics_family(struct metrics_text *text, const char *name, const char *type, const char *help)
{
    text_print(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_label(struct metrics_labels *labels, const char *name, const char *value)
{
    /* A label is whole or it is not there: two bytes a character, and what surrounds them. */
    size_t needed = strlen(name) + 2 * strlen(value) + sizeof(",=\"\"");
    if (needed > sizeof(labels->text) - labels->size) {
        return;
    }
    char *at = labels->text + labels->size;
    at += snprintf(at, needed, "%s%s=\"", labels->size == 0 ? "" : ",", name);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '\\' || *c == '"' || *c == '\n') {
            *at++ = '\\';
        }
        *at++ = *c == '\n' ? 'n' : *c;
    }
    *at++ = '"';
    *at = '\0';
    labels->size = (size_t)(at - labels->text);
}

static void text_name(struct metrics_text *text, const char *name,
                      const struct metrics_labels *labels)
{
    if (labels == NULL || labels->size == 0) {
        text_print(text, "%s ", name);
    } else {
        text_print(text, "%s{%s} ", name, labels->text);
    }
}

void metrics_sample(struct metrics_text *text, const char *name,
                    const struct metrics_labels *labels, uint64_t value)
{
    text_name(text, name, labels);
    text_print(text, "%" PRIu64 "\n", value);
}

void metrics_sample_ns(struct metrics_text *text, const char *name,
                       const struct metrics_labels *labels, uint64_t ns)
{
    text_name(text, name, labels);
    text_print(text, "%" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000, ns % 1000000000);
}

void metrics_single(struct metrics_text *text, const char *name, const char *type, const char *help,
                    uint64_t value)
{
    metrics_family(text, name, type, help);
    metrics_sample(text, name, NULL, value);
}

void metrics_histogram_write(struct metrics_text *text, const char *name,
                             const struct metrics_labels *labels,
                             const struct metrics_histogram *histogram)
{
    const char *own = labels == NULL ? "" : labels->text;
    const char *comma = own[0] == '\0' ? "" : ",";
    uint64_t count = 0;
    for (uint32_t i = 0; i < METRICS_BUCKET_COUNT; i++) {
        count += histogram->buckets[i];
        text_print(text, "%s_bucket{%s%sle=\"", name, own, comma);
        if (i + 1 < METRICS_BUCKET_COUNT) {
            uint64_t us = UINT64_C(1) << (METRICS_BUCKET_FIRST + i);
            text_print(text, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
        } else {
            text_print(text, "+Inf");
        }
        text_print(text, "\"} %" PRIu64 "\n", count);
    }
    text_print(text, "%s_sum%s%s%s %" PRIu64 ".%09" PRIu64 "\n", name, own[0] == '\0' ? "" : "{",
               own, own[0] == '\0' ? "" : "}", histogram->sum_ns / 1000000000,
               histogram->sum_ns % 1000000000);
    text_print(text, "%s_count%s%s%s %" PRIu64 "\n", name, own[0] == '\0' ? "" : "{", own,
               own[0] == '\0' ? "" : "}", count);
}
