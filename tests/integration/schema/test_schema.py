#!/usr/bin/env python3
"""Compares src/protocol/schema with the message definitions inside a kafka-clients jar.

    test_schema.py [JAR]

Field by field: name, order, type, versions, nullability, default, tag. Every difference is named,
and any makes the exit code 1. The comparison first proves itself: each field of our schema is
changed in every way that could be wrong, and each change must be caught. Without an argument the
jar is looked for in TWINLOG_KAFKA_JAR and the cache of bench/systems/kafka/install. Without a jar
the test is skipped (77); with TWINLOG_STRICT=1 it is installed first.
"""

import copy
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROTOCOL = ROOT / "src" / "protocol"
JAR_NAME = "kafka-clients-4.2.0.jar"
VERSION_MAX = 32767
# KAFKA-18659: old librdkafka needs these advertised, though Kafka 4 refuses them.
ADVERTISED_MIN = {"Produce": 0}


def find_jar():
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    if os.environ.get("TWINLOG_KAFKA_JAR"):
        return Path(os.environ["TWINLOG_KAFKA_JAR"])
    cache = Path(os.environ.get("TWINLOG_CACHE", ROOT / ".cache" / "kafka-4.2.0"))
    if os.environ.get("TWINLOG_STRICT") == "1":
        subprocess.run([ROOT / "bench" / "systems" / "kafka" / "install"], check=True)
    return next(iter(sorted(cache.rglob(JAR_NAME))), None)


def our_schema(directory=PROTOCOL / "schema"):
    """api name -> what generate.py understood."""
    command = [sys.executable, PROTOCOL / "generate.py", "--dump-json"]
    command += sorted(directory.glob("*.schema"))
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {api["name"]: api for api in json.loads(output)}


def kafka_message(jar, name):
    text = jar.read(f"common/message/{name}.json").decode()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))


def snake(camel):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", camel).lower()


def kafka_range(text):
    if text is None or text == "none":
        return None
    low, plus, high = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text).groups()
    return [int(low), VERSION_MAX if plus else int(high or low)]


def kafka_type(text, primitives):
    prefix = "[]" if text.startswith("[]") else ""
    base = text.removeprefix("[]")
    return prefix + (base if base in primitives else snake(base))


PRIMITIVES = {"bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "uuid",
              "string", "bytes", "records"}


def effective_default(field_type, default):
    """What an absent field becomes; both sides may leave out the obvious."""
    if default is not None and str(default) == "null":
        return "null"
    if field_type.startswith("[]") or field_type not in PRIMITIVES:
        return "empty"
    if field_type in ("string", "bytes", "records", "uuid"):
        return "" if default is None else str(default)
    if field_type == "bool":
        return str(default or "false").lower()
    if field_type == "float64":
        return float(default or 0)
    return int(str(default or "0"), 0)


def kafka_fields(fields):
    """Kafka's fields in the shape of generate.py --dump-json."""
    return [{"name": snake(field["name"]), "type": kafka_type(field["type"], PRIMITIVES),
             "versions": kafka_range(field["versions"]),
             "nullable": kafka_range(field.get("nullableVersions")),
             "default": field.get("default"), "tag": field.get("tag"),
             "tagged": kafka_range(field.get("taggedVersions")),
             "fields": kafka_fields(field.get("fields", []))} for field in fields]


def compare_field(path, ours, theirs):
    for what in ("type", "versions", "nullable", "tag", "tagged"):
        if ours[what] != theirs[what]:
            yield f"{path}: {what} is {ours[what]}, Kafka's {theirs[what]}"
    our_default = effective_default(theirs["type"], ours["default"])
    default = effective_default(theirs["type"], theirs["default"])
    if our_default != default:
        yield f"{path}: default is {our_default!r}, Kafka's {default!r}"
    yield from compare_fields(path, ours["fields"], theirs["fields"])


def compare_fields(path, ours, theirs):
    our_names = [field["name"] for field in ours]
    their_names = [field["name"] for field in theirs]
    for name in their_names:
        if name not in our_names:
            yield f"{path}.{name}: missing"
    for name in our_names:
        if name not in their_names:
            yield f"{path}.{name}: Kafka has no such field"
    if set(our_names) == set(their_names) and our_names != their_names:
        yield f"{path}: order is {our_names}, Kafka's {their_names}"
    by_name = {field["name"]: field for field in theirs}
    for field in ours:
        if field["name"] in by_name:
            yield from compare_field(f"{path}.{field['name']}", field, by_name[field["name"]])


def compare_api(ours, request, response):
    """All differences of one message pair."""
    name = ours["name"]
    for kind, theirs in (("request", request), ("response", response)):
        path = name + kind.capitalize()
        expected = {"key": theirs["apiKey"], "versions": kafka_range(theirs["validVersions"]),
                    "flexible": kafka_range(theirs["flexibleVersions"])}
        for what, value in expected.items():
            if ours[what] != value:
                yield f"{path}: {what} is {ours[what]}, Kafka's {value}"
        if theirs.get("commonStructs"):
            yield f"{path}: commonStructs are not compared"
        yield from compare_fields(path, ours[kind], kafka_fields(theirs["fields"]))
    low, high = kafka_range(request["validVersions"])
    advertised = [ADVERTISED_MIN.get(name, low),
                  high - (1 if request.get("latestVersionUnstable") else 0)]
    if ours["advertised"] != advertised:
        yield f"{name}: advertised is {ours['advertised']}, Kafka's {advertised}"


def mutations(fields):
    """Yields, after changing `fields` in place, a text for each change; undoes it afterwards."""
    for index, field in enumerate(fields):
        name, saved = field["name"], dict(field)
        changes = {"name": name + "_x", "type": "int16" if field["type"] != "int16" else "int32",
                   "versions": [field["versions"][0] + 1, field["versions"][1]],
                   "nullable": None if field["nullable"] else [0, VERSION_MAX],
                   "tag": 77 if field["tag"] is None else field["tag"] + 1,
                   "tagged": None if field["tagged"] else [0, VERSION_MAX]}
        if field["type"] in PRIMITIVES - {"uuid"}:
            changes["default"] = {"bool": "false" if field["default"] == "true" else "true"}.get(
                field["type"], "77")
        for what, value in changes.items():
            field[what] = value
            yield f"{what} of {name}"
            field.update(saved)
        removed = fields.pop(index)
        yield f"{name} removed"
        fields.insert(index, removed)
        if index > 0:
            fields[index - 1], fields[index] = fields[index], fields[index - 1]
            yield f"{name} moved up"
            fields[index - 1], fields[index] = fields[index], fields[index - 1]
        yield from mutations(field["fields"])


def self_check(ours, request, response):
    """The number of mutations; each must be caught."""
    count = 0
    mutant = copy.deepcopy(ours)
    for kind in ("request", "response"):
        for text in mutations(mutant[kind]):
            count += 1
            if not list(compare_api(mutant, request, response)):
                sys.exit(f"not caught: {text} in {ours['name']} {kind}")
    for what in ("key", "versions", "advertised", "flexible"):
        changed = dict(mutant, **{what: 99 if what == "key" else [0, 99]})
        count += 1
        if not list(compare_api(changed, request, response)):
            sys.exit(f"not caught: {what} of {ours['name']}")
    if mutant != ours:
        sys.exit("the self-check did not restore the schema")
    return count


def main():
    path = find_jar()
    if path is None or not path.exists():
        print(f"skipped: no {JAR_NAME} (run bench/systems/kafka/install, or name one)")
        sys.exit(77)
    apis = our_schema()
    differences, mutants = [], 0
    with zipfile.ZipFile(path) as jar:
        for name, api in apis.items():
            pair = kafka_message(jar, name + "Request"), kafka_message(jar, name + "Response")
            found = list(compare_api(api, *pair))
            differences += found
            mutants += 0 if found else self_check(api, *pair)
    for difference in differences:
        print(difference)
    if differences:
        sys.exit(f"{len(differences)} differences")
    if not apis or mutants < 10 * len(apis):
        sys.exit(f"only {len(apis)} message pairs and {mutants} mutations: nothing was tested")
    print(f"{len(apis)} message pairs are Kafka's; {mutants} mutations were caught")


if __name__ == "__main__":
    main()
