#include "properties.h"

/* The characters of one logical line: comments are gone, continuations joined. */
struct line {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t *line_number;
};

struct output {
    char *to;
    size_t room; /* with the NUL */
};

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

static bool is_line_end(uint8_t c)
{
    return c == '\n' || c == '\r';
}

static status output_byte(struct output *out, uint8_t byte)
{
    if (byte == 0) {
        return STATUS(INVALID);
    }
    if (out->room <= 1) {
        return STATUS(TOO_LARGE);
    }
    *out->to++ = (char)byte;
    out->room--;
    return OK;
}

/* UTF-8 of one code point. */
static status output_code_point(struct output *out, uint32_t code)
{
    if (code < 0x80) {
        return output_byte(out, (uint8_t)code);
    }
    if (code < 0x800) {
        TRY(output_byte(out, (uint8_t)(0xc0 | (code >> 6))));
        return output_byte(out, (uint8_t)(0x80 | (code & 0x3f)));
    }
    if (code < 0x10000) {
        TRY(output_byte(out, (uint8_t)(0xe0 | (code >> 12))));
    } else {
        TRY(output_byte(out, (uint8_t)(0xf0 | (code >> 18))));
        TRY(output_byte(out, (uint8_t)(0x80 | ((code >> 12) & 0x3f))));
    }
    TRY(output_byte(out, (uint8_t)(0x80 | ((code >> 6) & 0x3f))));
    return output_byte(out, (uint8_t)(0x80 | (code & 0x3f)));
}

static void skip_line_end(struct line *line)
{
    if (line->at < line->end && *line->at == '\r') {
        line->at++;
        if (line->at < line->end && *line->at == '\n') {
            line->at++;
        }
    } else if (line->at < line->end && *line->at == '\n') {
        line->at++;
    }
    (*line->line_number)++;
}

static void skip_blanks(struct line *line)
{
    while (line->at < line->end && is_blank(*line->at)) {
        line->at++;
    }
}

/* A backslash at the end of a line joins the next one, without its leading blanks. */
static void skip_continuations(struct line *line)
{
    while (line->end - line->at >= 2 && line->at[0] == '\\' && is_line_end(line->at[1])) {
        line->at++;
        skip_line_end(line);
        skip_blanks(line);
    }
}

static bool line_has_more(struct line *line)
{
    skip_continuations(line);
    return line->at < line->end && !is_line_end(*line->at);
}

static bool read_hex4(struct line *line, uint32_t *value)
{
    if (line->end - line->at < 4) {
        return false;
    }
    *value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = *line->at++;
        uint8_t lower = c | 0x20;
        bool digit = c >= '0' && c <= '9';
        bool letter = lower >= 'a' && lower <= 'f';
        if (!digit && !letter) {
            return false;
        }
        *value = *value << 4 | (uint32_t)(digit ? c - '0' : lower - 'a' + 10);
    }
    return true;
}

/* Behind "\u": one UTF-16 unit, or two that make a pair. */
static status read_unicode(struct line *line, struct output *out)
{
    uint32_t code;
    if (!read_hex4(line, &code)) {
        return STATUS(INVALID);
    }
    if (code >= 0xd800 && code < 0xdc00 && line->end - line->at >= 6 && line->at[0] == '\\' &&
        line->at[1] == 'u') {
        uint32_t low;
        line->at += 2;
        if (!read_hex4(line, &low)) {
            return STATUS(INVALID);
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && (code < 0xe000 || code > 0x10ffff)) {
        return STATUS(INVALID);
    }
    return output_code_point(out, code);
}

/* Reads one character, escaped or not, into `out`. */
static status read_character(struct line *line, struct output *out)
{
    uint8_t c = *line->at++;
    if (c != '\\' || line->at == line->end) {
        return c == '\\' ? OK : output_byte(out, c);
    }
    c = *line->at++;
    switch (c) {
    case 'n':
        return output_byte(out, '\n');
    case 't':
        return output_byte(out, '\t');
    case 'r':
        return output_byte(out, '\r');
    case 'f':
        return output_byte(out, '\f');
    case 'u':
        return read_unicode(line, out);
    default:
        return output_byte(out, c);
    }
}

static status read_entry(struct line *line, struct output *key, struct output *value)
{
    while (line_has_more(line) && !is_blank(*line->at) && *line->at != '=' && *line->at != ':') {
        TRY(read_character(line, key));
    }
    while (line_has_more(line) && is_blank(*line->at)) {
        line->at++;
    }
    if (line_has_more(line) && (*line->at == '=' || *line->at == ':')) {
        line->at++;
    }
    while (line_has_more(line) && is_blank(*line->at)) {
        line->at++;
    }
    while (line_has_more(line)) {
        TRY(read_character(line, value));
    }
    return OK;
}

/* Leaves `line` at the first character of an entry; false at the end. */
static bool find_entry(struct line *line)
{
    for (;;) {
        skip_blanks(line);
        if (line->at == line->end) {
            return false;
        }
        if (is_line_end(*line->at)) {
            skip_line_end(line);
        } else if (*line->at == '#' || *line->at == '!') {
            while (line->at < line->end && !is_line_end(*line->at)) {
                line->at++;
            }
        } else {
            return true;
        }
    }
}

void properties_init(struct properties *properties, struct bytes text)
{
    *properties = (struct properties){.left = text, .line = 0, .next_line = 1};
}

status properties_next(struct properties *properties, char *key, size_t key_size, char *value,
                       size_t value_size)
{
    struct line line = {
        .at = properties->left.data,
        .end = properties->left.data + properties->left.size,
        .line_number = &properties->next_line,
    };
    if (properties->left.size == 0 || !find_entry(&line)) {
        return STATUS(NOT_FOUND);
    }
    properties->line = properties->next_line;
    struct output key_out = {key, key_size};
    struct output value_out = {value, value_size};
    status result = read_entry(&line, &key_out, &value_out);
    *key_out.to = '\0';
    /* Blanks behind a value are more often an accident than meant. */
    while (value_out.to > value && is_blank((uint8_t)value_out.to[-1])) {
        value_out.to--;
    }
    *value_out.to = '\0';
    properties->left.size -= (uint32_t)(line.at - properties->left.data);
    properties->left.data = line.at;
    return result;
}
