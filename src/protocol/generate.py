#!/usr/bin/env python3
"""Compiles schema/*.schema into C structs and field tables.

    generate.py --output-dir DIR SCHEMA...    writes DIR/messages_generated.{h,c}
    generate.py --dump-json SCHEMA...         prints the parsed schema as JSON

README.md describes the language. For every struct and version the C file holds a layout: the
fields on the wire in that version, in order, with their place in the C struct. Versions that
look alike share one layout, so the decoder never asks which version it is in.
"""

import argparse
import json
import re
import sys
from pathlib import Path

VERSION_MAX = 32767

# Schema type -> (C type, field kind, fewest bytes on the wire: plain, flexible)
SCALARS = {
    "bool": ("bool", "FIELD_BOOL", 1, 1),
    "int8": ("int8_t", "FIELD_INT8", 1, 1),
    "int16": ("int16_t", "FIELD_INT16", 2, 2),
    "int32": ("int32_t", "FIELD_INT32", 4, 4),
    "int64": ("int64_t", "FIELD_INT64", 8, 8),
    "uint16": ("uint16_t", "FIELD_UINT16", 2, 2),
    "uint32": ("uint32_t", "FIELD_UINT32", 4, 4),
    "float64": ("double", "FIELD_FLOAT64", 8, 8),
    "uuid": ("struct uuid", "FIELD_UUID", 16, 16),
    "string": ("struct bytes", "FIELD_STRING", 2, 1),
    "bytes": ("struct bytes", "FIELD_BYTES", 4, 1),
    "records": ("struct bytes", "FIELD_RECORDS", 4, 1),
}
VIEWS = ("string", "bytes", "records")
INTEGERS = ("int8", "int16", "int32", "int64", "uint16", "uint32")
ALL = (0, VERSION_MAX)
NONE = (1, 0)


class SchemaError(Exception):
    pass


def parse_range(text):
    """'3+', '0-12' or '4' as a closed range."""
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if not match:
        raise SchemaError(f"bad version range '{text}'")
    low = int(match[1])
    high = VERSION_MAX if match[2] else int(match[3]) if match[3] else low
    if high < low:
        raise SchemaError(f"empty version range '{text}'")
    return (low, high)


def holds(versions, version):
    return versions[0] <= version <= versions[1]


class Field:
    """One field; `fields` is filled when its type is a struct or an array of structs."""

    def __init__(self, text):
        words = text.split()
        if len(words) < 3:
            raise SchemaError("a field needs name, type and versions")
        self.name, self.type = words[0], words[1]
        self.versions = parse_range(words[2])
        self.nullable, self.default, self.tag, self.tagged = NONE, None, None, NONE
        self.fields = []
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise SchemaError(f"bad field name '{self.name}'")
        for word in words[3:]:
            self.set_attribute(word)
        if (self.tag is None) != (self.tagged == NONE):
            raise SchemaError("'tagged' without 'tag'")
        self.is_array = self.type.startswith("[]")
        self.base = self.type[2:] if self.is_array else self.type
        self.is_struct = self.base not in SCALARS
        self.is_view = not self.is_array and self.base in VIEWS
        self.is_pointer = self.is_struct and not self.is_array and self.nullable != NONE

    def set_attribute(self, word):
        key, _, value = word.partition("=")
        if key == "nullable":
            self.nullable = parse_range(value)
        elif key == "default" and value:
            self.default = value
        elif key == "tag":
            self.tag = int(value)
            self.tagged = self.versions if self.tagged == NONE else self.tagged
        elif key == "tagged":
            self.tagged = parse_range(value)
        else:
            raise SchemaError(f"unknown attribute '{word}'")

    def check(self):
        if self.is_struct != bool(self.fields):
            raise SchemaError(f"{self.name}: fields belong to a struct, and only to it")
        if self.nullable != NONE and not (self.is_array or self.is_view or self.is_struct):
            raise SchemaError(f"{self.name}: {self.type} cannot be null")
        if self.default is not None:
            self.check_default()

    def check_default(self):
        if self.default == "null":
            if self.nullable == NONE:
                raise SchemaError(f"{self.name}: null default, but never nullable")
        elif self.is_array or self.base not in INTEGERS + ("bool", "string"):
            raise SchemaError(f"{self.name}: {self.type} takes no default but null")
        elif self.base in INTEGERS:
            int(self.default, 0)


class Message:
    """One struct that travels alone: a request, a response or an internal record."""

    def __init__(self, name, kafka_name):
        self.name, self.kafka_name = name, kafka_name
        self.versions, self.flexible = (0, 0), ALL
        self.straight = False
        self.fields = []


class Schema:
    def __init__(self):
        self.apis = []  # dicts: key, name, versions, advertised, flexible, request, response
        self.records = []  # dicts: number, message

    def messages(self):
        for api in self.apis:
            yield api["request"]
            yield api["response"]
        for record in self.records:
            yield record["message"]


def snake(camel):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", camel).lower()


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


class Parser:
    """Line by line; the indentation (4 spaces a level) is the nesting."""

    def __init__(self, schema):
        self.schema = schema
        self.api = None
        self.open = []  # field lists, by depth

    def line(self, text):
        text = text.split("#", 1)[0].rstrip()
        if not text:
            return
        depth, rest = divmod(len(text) - len(text.lstrip(" ")), 4)
        if rest or "\t" in text:
            raise SchemaError("indent by multiples of four spaces")
        if depth == 0:
            self.directive(text.split())
            return
        if depth > len(self.open):
            raise SchemaError("indented too far")
        del self.open[depth:]
        field = Field(text)
        if any(field.name == other.name for other in self.open[-1]):
            raise SchemaError(f"{field.name}: twice in one struct")
        self.open[-1].append(field)
        if field.is_struct:
            self.open.append(field.fields)

    def directive(self, words):
        self.open = []
        if words[0] == "api" and len(words) == 3:
            self.api = {"key": int(words[1]), "name": words[2], "advertised": None,
                        "straight": False}
            self.schema.apis.append(self.api)
        elif words[0] in ("versions", "advertised", "flexible") and len(words) == 2 and self.api:
            self.api[words[0]] = parse_range(words[1])
        elif words == ["straight"] and self.api:
            self.api["straight"] = True
        elif words[0] in ("request", "response") and len(words) == 1 and self.api:
            message = Message(f"{snake(self.api['name'])}_{words[0]}",
                              self.api["name"] + words[0].capitalize())
            message.versions, message.flexible = self.api["versions"], self.api["flexible"]
            message.straight = self.api["straight"]
            self.api[words[0]] = message
            self.open = [message.fields]
        elif words[0] == "record" and len(words) == 3:
            message = Message(words[2], camel(words[2]))
            self.schema.records.append({"number": int(words[1]), "message": message})
            self.open = [message.fields]
        else:
            raise SchemaError(f"unknown line '{' '.join(words)}'")


def walk(fields):
    """Every field below `fields`, children before parents."""
    for field in fields:
        yield from walk(field.fields)
        yield field


def check_schema(schema):
    for message in schema.messages():
        structs = set()
        for field in walk(message.fields):
            field.check()
            if field.is_struct and field.base in structs:
                raise SchemaError(f"{message.kafka_name}: struct {field.base} defined twice")
            if field.is_struct:
                structs.add(field.base)
            if field.tag is not None and field.tagged[0] < message.flexible[0]:
                raise SchemaError(f"{message.kafka_name}: tag in a version that is not flexible")
    for what, key in (("api", "key"), ("record", "number")):
        numbers = [item[key] for item in getattr(schema, what + "s")]
        if len(numbers) != len(set(numbers)):
            raise SchemaError(f"an {what} number is used twice")


def parse_files(paths):
    schema = Schema()
    for path in paths:
        parser = Parser(schema)
        for number, text in enumerate(Path(path).read_text().splitlines(), 1):
            try:
                parser.line(text)
            except (SchemaError, ValueError, KeyError) as error:
                raise SchemaError(f"{path}:{number}: {error}") from error
    check_schema(schema)
    for api in schema.apis:
        api["advertised"] = api["advertised"] or api["versions"]
    schema.apis.sort(key=lambda api: api["key"])
    schema.records.sort(key=lambda record: record["number"])
    return schema


# C structs


def struct_name(message, field):
    """<message>_<struct>; a struct that carries the message's name already keeps it once."""
    if field.base.startswith(message.name + "_"):
        return field.base
    return f"{message.name}_{field.base}"


def c_type(message, field):
    if field.is_struct:
        name = "struct " + struct_name(message, field)
        return name + " *" if field.is_array or field.is_pointer else name + " "
    name = SCALARS[field.base][0]
    return name + (" *" if field.is_array else " ")


def emit_struct(message, name, fields, out):
    out.append(f"struct {name} {{")
    for field in fields:
        out.append(f"    {c_type(message, field)}{field.name};")
        if field.is_array:
            out.append(f"    int32_t {field.name}_count;")
    out.append("};")
    out.append(f"extern const struct {name} {name}_default;")
    out.append("")


def structs_of(message):
    """(C name, fields) of every struct of the message, the inner ones first."""
    for field in walk(message.fields):
        if field.is_struct:
            yield struct_name(message, field), field.fields
    yield message.name, message.fields


def emit_header(schema):
    out = [
        "/* Generated by src/protocol/generate.py from src/protocol/schema: do not edit. */",
        "#ifndef TWINLOG_PROTOCOL_MESSAGES_GENERATED_H",
        "#define TWINLOG_PROTOCOL_MESSAGES_GENERATED_H",
        "",
        '#include "twinlog/protocol/codec.h"',
        "",
        "enum api_key {",
    ]
    for api in schema.apis:
        out.append(f"    API_{snake(api['name']).upper()} = {api['key']},")
    out += ["};", "", "enum record_type {"]
    for record in schema.records:
        name = record["message"].name.removesuffix("_record").upper()
        out.append(f"    RECORD_TYPE_{name} = {record['number']},")
    out += ["};", ""]
    for message in schema.messages():
        out.append(f"/* {message.kafka_name} */")
        for name, fields in structs_of(message):
            emit_struct(message, name, fields, out)
        out.append(f"extern const struct message_type {message.name}_type;")
        out.append("")
    out += ["#endif", ""]
    return "\n".join(out)


# Defaults


def c_integer(text):
    value = int(text, 0)
    if value == -(2**63):
        return "INT64_MIN"
    if value == -(2**31):
        return "INT32_MIN"
    return f"{value}LL" if abs(value) >= 2**31 else str(value)


def c_default(field):
    """The C initializers of one field, those that are all zero left out."""
    null = field.default == "null"
    if field.is_array:
        return [f".{field.name}_count = -1"] if null else []
    if field.is_pointer:
        return []
    if field.is_struct:
        inner = [text for child in field.fields for text in c_default(child)]
        return [f".{field.name} = {{{', '.join(inner)}}}"] if inner else []
    if field.is_view:
        text = "" if field.default is None else json.dumps(field.default)[1:-1]
        size = len(field.default or "")
        return [] if null else [f'.{field.name} = {{(const uint8_t *)"{text}", {size}}}']
    if field.default is None:
        return []
    if field.base == "bool":
        return [f".{field.name} = true"] if field.default == "true" else []
    return [f".{field.name} = {c_integer(field.default)}"]


# Layouts


def element_min(field, flexible):
    if field.is_struct:
        raise AssertionError("structs count their own bytes")
    return SCALARS[field.base][3 if flexible else 2]


class Layouts:
    """Emits one layout per distinct (struct, set of fields on the wire)."""

    def __init__(self, message, out):
        self.message, self.out = message, out
        self.known = {}  # text of a layout -> its C name
        self.minimum = {}  # C name -> fewest bytes on the wire

    def field_min(self, field, layout, nullable, flexible):
        if field.is_array:
            return 1 if flexible else 4
        if not field.is_struct:
            return element_min(field, flexible)
        return 1 if nullable else self.minimum[layout]

    def entry(self, struct, field, version, flexible):
        """(C initializer, fewest bytes) of one field at one version."""
        layout = None
        if field.is_struct:
            layout = self.layout(struct_name(self.message, field), field.fields, version)
        nullable = holds(field.nullable, version)
        parts = [f".nullable = {str(nullable).lower()}",
                 f".offset = offsetof(struct {struct}, {field.name})"]
        scalar = "FIELD_STRUCT" if field.is_struct else SCALARS[field.base][1]
        c_element = "struct " + struct_name(self.message, field) if field.is_struct else (
            SCALARS[field.base][0])
        if field.is_array:
            least = self.minimum[layout] if layout else element_min(field, flexible)
            if least == 0:
                raise SchemaError(f"{field.name}: array of nothing at version {version}")
            parts += [".kind = FIELD_ARRAY", f".element_kind = {scalar}",
                      f".count_offset = offsetof(struct {struct}, {field.name}_count)",
                      f".element_size = sizeof({c_element})", f".element_size_min = {least}"]
        else:
            parts.append(f".kind = {scalar + '_POINTER' if field.is_pointer else scalar}")
            parts.append(f".element_size = sizeof({c_element})")
        if layout:
            parts.append(f".layout = &{layout}")
        if field.tag is not None and holds(field.tagged, version):
            parts.append(f".tag = {field.tag}")
        least = self.field_min(field, layout, nullable, flexible)
        return "{" + ", ".join(parts) + "}", least

    def layout(self, struct, fields, version):
        """The C name of the layout of `struct` at `version`, emitted on first use."""
        flexible = holds(self.message.flexible, version)
        plain, tagged, minimum = [], [], 1 if flexible else 0
        for field in fields:
            if not holds(field.versions, version):
                continue
            text, least = self.entry(struct, field, version, flexible)
            if field.tag is not None and holds(field.tagged, version):
                tagged.append((field.tag, text))
            else:
                plain.append(text)
                minimum += least
        tagged = [text for _, text in sorted(tagged)]
        key = (struct, flexible, tuple(plain), tuple(tagged))
        if key not in self.known:
            self.known[key] = name = f"{struct}_v{version}"
            self.minimum[name] = minimum
            self.emit(name, struct, flexible, plain, tagged)
        return self.known[key]

    def emit(self, name, struct, flexible, plain, tagged):
        parts = [f".size = sizeof(struct {struct})", f".flexible = {str(flexible).lower()}",
                 f".defaults = &{struct}_default"]
        for what, member, entries in (("field", "fields", plain), ("tagged", "tagged", tagged)):
            if not entries:
                continue
            self.out.append(f"static const struct field {name}_{member}[] = {{")
            self.out += [f"    {entry}," for entry in entries]
            self.out.append("};")
            parts += [f".{member} = {name}_{member}", f".{what}_count = {len(entries)}"]
        self.out.append(f"static const struct layout {name} = {{{', '.join(parts)}}};")


# Straight-line code


class Straight:
    """Emits decode or encode of one message as straight-line C (straight.h)."""

    SIZES = {"string": 2, "bytes": 4, "records": 4}

    def __init__(self, message, decodes, out):
        self.message, self.decodes, self.out = message, decodes, out
        self.verb = "decode" if decodes else "encode"
        self.side = "r" if decodes else "w"
        self.kind = "straight_reader" if decodes else "straight_writer"

    def condition(self, versions):
        """C for `version is in versions`; None when every version of the message is."""
        low, high = self.message.versions
        parts = []
        if versions[0] > low:
            parts.append(f"version >= {versions[0]}")
        if versions[1] < high:
            parts.append(f"version <= {versions[1]}")
        return " && ".join(parts) or None

    def nullable(self, field):
        if field.nullable == NONE:
            return "false"
        return self.condition(field.nullable) or "true"

    def call(self, field, place):
        """The expression that reads into or writes from `place`: a scalar or a view."""
        to = "&" if self.decodes else ""
        what = "get" if self.decodes else "put"
        if field.base in VIEWS:
            return (f"straight_{what}_view({self.side}, flexible, {self.SIZES[field.base]}, "
                    f"{self.nullable(field)}, {to}{place})")
        if field.base in ("int16", "int32", "int64", "uuid"):
            return f"straight_{what}_{field.base}({self.side}, {to}{place})"
        raise SchemaError(f"{field.name}: straight-line code has no {field.type}")

    def array(self, field):
        if not field.is_struct:
            raise SchemaError(f"{field.name}: straight-line code has no {field.type}")
        struct = "struct " + struct_name(self.message, field)
        count = f"m->{field.name}_count"
        if self.decodes:
            yield f"void *{field.name};"
            yield (f"STRAIGHT(straight_get_array(r, flexible, {self.nullable(field)}, "
                   f"sizeof({struct}), &{count}, &{field.name}));")
            yield f"m->{field.name} = {field.name};"
        else:
            yield (f"STRAIGHT(straight_put_length(w, flexible, 4, {self.nullable(field)}, "
                   f"{count}));")
        element = f"{struct_name(self.message, field)}_straight_{self.verb}"
        yield f"for (int32_t i = 0; i < {count}; i++) {{"
        yield f"    STRAIGHT({element}({self.side}, version, flexible, &m->{field.name}[i]));"
        yield "}"

    def is_default(self, field, place, default):
        """C that is true when a tagged field needs not be sent."""
        if field.is_array:
            return [f"{place}_count == {default}_count"]
        if field.is_struct and not field.is_pointer:
            return [text for child in field.fields for text in
                    self.is_default(child, f"{place}.{child.name}", f"{default}.{child.name}")]
        if field.base not in INTEGERS:
            raise SchemaError(f"{field.name}: straight-line code has no tagged {field.type}")
        return [f"{place} == {default}"]

    def field(self, struct, field):
        if field.tag is not None:
            if not self.decodes:
                for text in self.is_default(field, f"m->{field.name}",
                                            f"{struct}_default.{field.name}"):
                    yield f"STRAIGHT({text});"
            return
        lines = (list(self.array(field)) if field.is_array else
                 [f"STRAIGHT({self.call(field, 'm->' + field.name)});"])
        condition = self.condition(field.versions)
        if condition:
            yield f"if ({condition}) {{"
            yield from ("    " + line for line in lines)
            yield "}"
        else:
            yield from lines

    def struct(self, struct, fields):
        const = "" if self.decodes else "const "
        self.out.append(f"STRAIGHT_INLINE bool {struct}_straight_{self.verb}("
                        f"struct {self.kind} *{self.side}, int16_t version, bool flexible, "
                        f"{const}struct {struct} *m)")
        self.out.append("{")
        if self.decodes:
            self.out.append(f"    *m = {struct}_default;")
        for field in fields:
            self.out += ["    " + line for line in self.field(struct, field)]
        what = "get" if self.decodes else "put"
        self.out += [f"    return straight_{what}_no_tags({self.side}, flexible);", "}"]

    def emit(self):
        """Emits the functions; gives the line of the message_type that names the outermost."""
        tagged = {id(child) for field in walk(self.message.fields) if field.tag is not None
                  for child in [field, *walk(field.fields)]}
        for field in walk(self.message.fields):
            if field.is_struct and id(field) not in tagged:
                self.struct(struct_name(self.message, field), field.fields)
        name = self.message.name
        self.struct(name, self.message.fields)
        # A copy that no one else can see lives in registers.
        const, star = ("", "reader") if self.decodes else ("const ", "writer")
        flexible = self.condition(self.message.flexible) or "true"
        call = f"{name}_straight_{self.verb}(&copy, version, {{}}, message)"
        self.out += [
            f"static bool {name}_straight(struct {self.kind} *{star}, int16_t version, "
            f"{const}void *message)",
            "{",
            f"    struct {self.kind} copy = *{star};",
            f"    bool done = {flexible} ? {call.format('true')} : {call.format('false')};",
            "    if (done) {",
            f"        *{star} = copy;",
            "    }",
            "    return done;",
            "}",
        ]
        return f"    .straight_{self.verb} = {name}_straight,"


def emit_message(message, out):
    out.append(f"/* {message.kafka_name} */")
    for name, fields in structs_of(message):
        values = [text for field in fields for text in c_default(field)]
        body = ", ".join(values) if values else "0"
        out.append(f"const struct {name} {name}_default = {{{body}}};")
    layouts = Layouts(message, out)
    low, high = message.versions
    names = [layouts.layout(message.name, message.fields, v) for v in range(low, high + 1)]
    straight = []
    if message.straight:
        straight = [Straight(message, message.name.endswith("_request"), out).emit()]
    out.append(f"static const struct layout *const {message.name}_layouts[] = {{")
    out += [f"    &{name}," for name in names]
    out += ["};", f"const struct message_type {message.name}_type = {{",
            f'    .name = "{message.kafka_name}", .version_min = {low}, .version_max = {high},',
            f"    .layouts = {message.name}_layouts,", *straight, "};", ""]


def emit_source(schema):
    out = ["/* Generated by src/protocol/generate.py from src/protocol/schema: do not edit. */",
           '#include "messages_generated.h"', '#include "straight.h"', ""]
    for message in schema.messages():
        emit_message(message, out)
    out.append("const struct api protocol_apis[] = {")
    for api in schema.apis:
        low = max(api["versions"][0], api["advertised"][0])
        high = min(api["versions"][1], api["advertised"][1])
        name = snake(api["name"])
        out.append(f"    {{.key = {api['key']}, .version_min = {low},"
                   f" .version_min_advertised = {api['advertised'][0]}, .version_max = {high},"
                   f" .flexible_from = {api['flexible'][0]}, .name = \"{api['name']}\","
                   f" .request = &{name}_request_type, .response = &{name}_response_type}},")
    out += ["};", f"const size_t protocol_api_count = {len(schema.apis)};"]
    out.append("const struct message_type *const protocol_messages[] = {")
    out += [f"    &{message.name}_type," for message in schema.messages()]
    out += ["};", f"const size_t protocol_message_count = {len(list(schema.messages()))};", ""]
    return "\n".join(out)


# JSON for the comparison test


def dump_fields(fields):
    return [{"name": field.name, "type": field.type, "versions": field.versions,
             "nullable": field.nullable if field.nullable != NONE else None,
             "default": field.default, "tag": field.tag,
             "tagged": field.tagged if field.tag is not None else None,
             "fields": dump_fields(field.fields)} for field in fields]


def dump_json(schema):
    return [{"key": api["key"], "name": api["name"], "versions": api["versions"],
             "advertised": api["advertised"], "flexible": api["flexible"],
             "request": dump_fields(api["request"].fields),
             "response": dump_fields(api["response"].fields)} for api in schema.apis]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output-dir", type=Path)
    parser.add_argument("--dump-json", action="store_true")
    parser.add_argument("schemas", nargs="+")
    arguments = parser.parse_args()
    try:
        schema = parse_files(arguments.schemas)
        if arguments.dump_json:
            print(json.dumps(dump_json(schema), indent=1))
        if arguments.output_dir:
            arguments.output_dir.mkdir(parents=True, exist_ok=True)
            for suffix, emit in (("h", emit_header), ("c", emit_source)):
                path = arguments.output_dir / f"messages_generated.{suffix}"
                path.write_text(emit(schema))
    except SchemaError as error:
        sys.exit(f"generate.py: {error}")


if __name__ == "__main__":
    main()
