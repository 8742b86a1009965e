"""Kafka's protocol for tests, driven by the project's own schemas: requests and responses as
dictionaries, record batches, and CRC32C.

    wire = Wire()
    frame = wire.request("Metadata", 12, {"topics": None}, correlation_id=7)
    answer = wire.response("Metadata", 12, payload)        # payload: behind the length

A field that is not given has its schema default. Decoding is strict: every byte must be used.
"""
import json
import os
import struct
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SCALARS = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q",
           "uint16": ">H", "uint32": ">I", "float64": ">d"}
API_VERSIONS = 18


class WireError(ValueError):
    """Bytes that are not what the schema says."""


def load_schema():
    """{api name: schema}, as src/protocol/generate.py understands the files."""
    folder = os.path.join(ROOT, "src", "protocol")
    files = sorted(os.path.join(folder, "schema", name)
                   for name in os.listdir(os.path.join(folder, "schema")))
    done = subprocess.run([sys.executable, os.path.join(folder, "generate.py"), "--dump-json",
                           *files], check=True, stdout=subprocess.PIPE)
    return {api["name"]: api for api in json.loads(done.stdout)}


# ---------------------------------------------------------------- numbers

def varint(number):
    """An unsigned varint."""
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number):
    """A signed varint, as in records."""
    return varint(((number << 1) ^ (number >> 63)) & 0xffffffffffffffff)


def crc_table():
    table = []
    for index in range(256):
        crc = index
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    """CRC32C, as in record batches."""
    crc = 0xffffffff
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


# ---------------------------------------------------------------- encoding

def holds(versions, version):
    return versions is not None and versions[0] <= version <= versions[1]


def default_of(field, version):
    """The value of a field that is not given."""
    text = field["default"]
    if text == "null" or (text is None and field["type"] not in SCALARS
                          and not field["type"].startswith("[]") and field["fields"] and
                          holds(field["nullable"], version)):
        return None
    if field["type"].startswith("[]"):
        return []
    if field["fields"]:
        return {}
    if field["type"] == "uuid":
        return bytes(16)
    if field["type"] == "string":
        return text or ""
    if field["type"] in ("bytes", "records"):
        return b""
    if field["type"] == "bool":
        return text == "true"
    return int(text, 0) if text else 0


class Encoder:
    """One message in one version."""

    def __init__(self, version, flexible):
        self.version, self.flexible = version, flexible

    def length(self, size, fixed):
        """A length or count; None is null. `fixed` is its format in versions without varints."""
        if self.flexible:
            return varint(0 if size is None else size + 1)
        return struct.pack(fixed, -1 if size is None else size)

    def scalar(self, kind, value):
        if kind in SCALARS:
            return struct.pack(SCALARS[kind], value)
        if kind == "uuid":
            return value
        if kind == "string" and value is not None:
            value = value.encode()
        fixed = ">h" if kind == "string" else ">i"
        return self.length(None if value is None else len(value), fixed) + (value or b"")

    def value(self, field, value):
        kind = field["type"]
        if kind.startswith("[]"):
            out = self.length(None if value is None else len(value), ">i")
            return out + b"".join(self.item(field, kind[2:], item) for item in value or [])
        if field["fields"] and holds(field["nullable"], self.version):
            return b"\xff" if value is None else b"\1" + self.struct(field["fields"], value)
        return self.item(field, kind, value)

    def item(self, field, kind, value):
        return self.struct(field["fields"], value) if field["fields"] else self.scalar(kind, value)

    def struct(self, fields, values):
        names = {field["name"] for field in fields}
        unknown = set(values) - names
        if unknown:
            raise WireError(f"no such fields: {sorted(unknown)}")
        out, tags = b"", {}
        for field in fields:
            if not holds(field["versions"], self.version):
                continue
            default = default_of(field, self.version)
            value = values.get(field["name"], default)
            if holds(field["tagged"], self.version):
                if value != default:
                    tags[field["tag"]] = self.value(field, value)
            else:
                out += self.value(field, value)
        if self.flexible:
            out += varint(len(tags))
            for tag, data in sorted(tags.items()):
                out += varint(tag) + varint(len(data)) + data
        return out


# ---------------------------------------------------------------- decoding

class Decoder:
    """One message in one version, from bytes."""

    def __init__(self, version, flexible, data):
        self.version, self.flexible, self.data, self.at = version, flexible, data, 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise WireError(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size:self.at]

    def varint(self):
        result = shift = 0
        while True:
            byte, = self.take(1)
            result |= (byte & 0x7f) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 28:
                raise WireError("a varint of more than five bytes")

    def length(self, fixed):
        if self.flexible:
            size = self.varint()
            return None if size == 0 else size - 1
        size, = struct.unpack(fixed, self.take(struct.calcsize(fixed)))
        if size < -1:
            raise WireError(f"a length of {size}")
        return None if size == -1 else size

    def scalar(self, field, kind):
        if kind in SCALARS:
            if kind == "bool" and self.data[self.at:self.at + 1] not in (b"\0", b"\1"):
                raise WireError(f"{field['name']}: not a bool")
            return struct.unpack(SCALARS[kind], self.take(struct.calcsize(SCALARS[kind])))[0]
        if kind == "uuid":
            return bytes(self.take(16))
        size = self.length(">h" if kind == "string" else ">i")
        if size is None:
            self.check_null(field)
            return None
        data = bytes(self.take(size))
        return data.decode() if kind == "string" else data

    def check_null(self, field):
        if not holds(field["nullable"], self.version):
            raise WireError(f"{field['name']}: null in version {self.version}")

    def value(self, field):
        kind = field["type"]
        if kind.startswith("[]"):
            count = self.length(">i")
            if count is None:
                self.check_null(field)
                return None
            return [self.item(field, kind[2:]) for _ in range(count)]
        if field["fields"] and holds(field["nullable"], self.version):
            mark, = struct.unpack(">b", self.take(1))
            return None if mark < 0 else self.struct(field["fields"])
        return self.item(field, kind)

    def item(self, field, kind):
        return self.struct(field["fields"]) if field["fields"] else self.scalar(field, kind)

    def struct(self, fields):
        values, tagged = {}, {}
        for field in fields:
            if not holds(field["versions"], self.version):
                continue
            if holds(field["tagged"], self.version):
                tagged[field["tag"]] = field
                values[field["name"]] = default_of(field, self.version)
            else:
                values[field["name"]] = self.value(field)
        if self.flexible:
            self.tags(tagged, values)
        return values

    def tags(self, tagged, values):
        last = -1
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            if tag <= last or tag not in tagged:
                raise WireError(f"tag {tag} after {last} is unknown or out of order")
            last, end = tag, self.at + size
            values[tagged[tag]["name"]] = self.value(tagged[tag])
            if self.at != end:
                raise WireError(f"tag {tag} has {size} bytes, its value {self.at - end + size}")


class Wire:
    """Requests and responses by the name of the API."""

    def __init__(self):
        self.apis = load_schema()
        self.by_key = {api["key"]: api for api in self.apis.values()}

    def is_flexible(self, name, version):
        return holds(self.apis[name]["flexible"], version)

    def body(self, name, version, values):
        """The body of a request."""
        encoder = Encoder(version, self.is_flexible(name, version))
        return encoder.struct(self.apis[name]["request"], values)

    def request(self, name, version, values, correlation_id=1, client_id="test"):
        """Header and body, without the length."""
        client = client_id.encode()
        header = struct.pack(">hhih", self.apis[name]["key"], version, correlation_id, len(client))
        tags = b"\0" if self.is_flexible(name, version) else b""
        return header + client + tags + self.body(name, version, values)

    def response(self, name, version, payload, correlation_id=None):
        """Decodes a payload, header included; every byte must be used."""
        actual, = struct.unpack(">i", payload[:4])
        if correlation_id is not None and actual != correlation_id:
            raise WireError(f"correlation id {actual} instead of {correlation_id}")
        decoder = Decoder(version, self.is_flexible(name, version), payload)
        decoder.at = 4
        if decoder.flexible and self.apis[name]["key"] != API_VERSIONS:
            decoder.tags({}, {})
        values = decoder.struct(self.apis[name]["response"])
        if decoder.at != len(payload):
            raise WireError(f"{len(payload) - decoder.at} bytes left over")
        return values

    def call(self, client, name, version, values):
        """One round trip on a twinlog_test.Client."""
        client.correlation_id += 1
        client.send_frame(self.request(name, version, values, client.correlation_id))
        return self.response(name, version, client.read_frame(), client.correlation_id)


# ---------------------------------------------------------------- record batches

def record(offset, key, value):
    """One record of a batch."""
    body = b"\0" + zigzag(0) + zigzag(offset)
    for part in (key, value):
        body += zigzag(-1) if part is None else zigzag(len(part)) + part
    body += zigzag(0)
    return zigzag(len(body)) + body


def batch(values, key=None, producer_id=-1, epoch=-1, sequence=-1, codec=0, **changes):
    """A record batch. `changes` replace fields of the header: base_offset, length, leader_epoch,
    magic, crc, attributes, last_offset_delta, count, records (the bytes behind the header)."""
    records = changes.get("records")
    if records is None:
        records = b"".join(record(i, key, value) for i, value in enumerate(values))
    now = 1700000000000
    covered = struct.pack(">hiqqqhii", changes.get("attributes", codec),
                          changes.get("last_offset_delta", len(values) - 1), now, now, producer_id,
                          epoch, sequence, changes.get("count", len(values))) + records
    crc = changes.get("crc", crc32c(covered))
    return struct.pack(">qiibI", changes.get("base_offset", 0),
                       changes.get("length", len(covered) + 9), changes.get("leader_epoch", -1),
                       changes.get("magic", 2), crc) + covered


def batches(data):
    """(base offset, count, bytes) of each whole batch in the records of a Fetch response."""
    at = 0
    while at + 61 <= len(data):
        base, length = struct.unpack(">qi", data[at:at + 12])
        if at + 12 + length > len(data):
            return
        count, = struct.unpack(">i", data[at + 57:at + 61])
        yield base, count, data[at:at + 12 + length]
        at += 12 + length


def read_zigzag(data, at):
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7f) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7


def values_of(data):
    """(offset, value) of each record of one uncompressed batch."""
    base, = struct.unpack(">q", data[:8])
    count, = struct.unpack(">i", data[57:61])
    at = 61
    for _ in range(count):
        size, at = read_zigzag(data, at)
        end = at + size
        _, at = read_zigzag(data, at + 1)
        delta, at = read_zigzag(data, at)
        key_size, at = read_zigzag(data, at)
        value_size, at = read_zigzag(data, at + max(key_size, 0))
        yield base + delta, None if value_size < 0 else bytes(data[at:at + value_size])
        at = end


def produce_request(topic, records, partition=0, acks=-1, topic_id=None):
    """The values of a Produce request with one batch."""
    item = {"partition_data": [{"index": partition, "records": records}]}
    item.update({"topic_id": topic_id} if topic_id else {"name": topic})
    return {"acks": acks, "timeout_ms": 10000, "topic_data": [item]}


def fetch_request(topic, offset=0, partition=0, wait_ms=0, size_max=1 << 20, topic_id=None):
    """The values of a Fetch request of one partition."""
    item = {"partitions": [{"partition": partition, "fetch_offset": offset,
                            "partition_max_bytes": size_max}]}
    item.update({"topic_id": topic_id} if topic_id else {"topic": topic})
    return {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": size_max, "topics": [item]}


def partition_of(answer):
    """The one partition of a Produce or Fetch response."""
    topic = answer["responses"][0]
    return (topic.get("partition_responses") or topic.get("partitions"))[0]
