#!/usr/bin/env python3
"""Sends one script of requests to two brokers and prints every difference between the answers.

    oracle.py --subject HOST:PORT --oracle HOST:PORT [--case NAME]... [--same] [--verbose]

The script is cases.py. Numbers that must differ are replaced before the comparison: ids, addresses,
clocks, leader epochs; texts of errors count as there or not there. A difference that accepted.txt
does not list, and a line there that matched none, end the program with 1.
"""
import argparse
import fnmatch
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "lib")]

from kafka_wire import Wire, WireError, batches, holds, values_of  # noqa: E402
from twinlog_test import Client  # noqa: E402
import admin_cases  # noqa: E402
import cases  # noqa: E402

ANSWER_SECONDS = 10
SETTLE_SECONDS = 20
CLOCK_TOLERANCE_MS = 600000
COORDINATOR_LOAD_IN_PROGRESS = 14
TRIES = 50  # of a request that a system answers with "not yet"
IGNORED = {"throttle_time_ms"}
TEXTS = {"error_message", "batch_index_error_message", "documentation", "log_dir"}
EPOCHS = {"leader_epoch"}
NUMBERS = {"producer_id": "<producer>", "session_id": "<session>",
           "finalized_features_epoch": "<epoch>", "total_bytes": "<size>",
           "usable_bytes": "<size>"}
IDS = {"topic_id"}
# Lists whose order means nothing, by what identifies their elements.
SORTED = {"topics": ["name", "topic_id"], "responses": ["topic", "name", "topic_id"],
          "partitions": ["partition_index"], "results": ["resource_name", "name"]}
UNORDERED = {"configs": "name", "api_keys": "api_key", "supported_features": "name",
             "finalized_features": "name"}


class System:
    """One broker: its connection, and what was learned about it."""

    def __init__(self, label, address, wire):
        self.label, self.wire = label, wire
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.client = None
        self.names = {bytes(16): "<no id>"}  # of topic ids
        self.ids = {}                        # topic ids by name
        self.epochs = {}                     # leader epochs by topic
        self.producers = {}                  # producer ids by the names cases give them
        self.session = 0                     # the fetch session that was made last
        self.cluster_id = None

    # What cases ask for.

    def topic_id(self, name):
        """The id of a topic that was settled; an id that no topic has for any other."""
        return self.ids.get(name, b"no-such-topic-id")

    def epoch(self, name, delta=0):
        """The leader epoch of a topic that was settled, plus `delta`."""
        return self.epochs.get(name, 0) + delta

    def producer(self, name):
        """The producer id that the answer to a step called `name` carried."""
        return self.producers[name]

    # The wire.

    def reconnect(self):
        if self.client is not None:
            self.client.socket.close()
        self.client = Client(self.port, self.host, ANSWER_SECONDS)

    def call(self, api, version, values):
        """The decoded answer, or a text that says why there is none."""
        try:
            return self.wire.call(self.client, api, version, values)
        except WireError as error:
            self.reconnect()
            return f"<undecodable: {error}>"
        except TimeoutError:
            self.reconnect()
            return "<no answer>"
        except (EOFError, OSError):
            self.reconnect()
            return "<closed>"

    def call_raw(self, payload):
        """Sends a payload as it is; whether it is answered, or why not."""
        try:
            self.client.send_frame(payload)
            self.client.read_frame()
            return {}
        except TimeoutError:
            self.reconnect()
            return "<no answer>"
        except (EOFError, OSError):
            self.reconnect()
            return "<closed>"

    def settle(self, name, partitions=1):
        """Waits until a topic has that many partitions with a leader; 0: until it is gone."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            answer = self.call("Metadata", 12, {"topics": [{"name": name}],
                                                "allow_auto_topic_creation": False})
            self.cluster_id = answer["cluster_id"]
            topic = answer["topics"][0]
            led = [part for part in topic["partitions"] if part["leader_id"] >= 0]
            if len(led) == partitions and (partitions == 0 or self.is_served(name, partitions)):
                if partitions > 0:
                    self.ids[name], self.names[topic["topic_id"]] = topic["topic_id"], name
                    self.epochs[name] = led[0]["leader_epoch"]
                return
            time.sleep(0.02)
        raise SystemExit(f"{self.label}: topic {name} does not get {partitions} partitions")

    def is_served(self, name, partitions):
        """Metadata may know a partition before its log is there."""
        answer = self.call("ListOffsets", 5, {"replica_id": -1, "topics": [
            {"name": name, "partitions": [{"partition_index": i, "timestamp": -2}
                                          for i in range(partitions)]}]})
        return all(part["error_code"] == 0 for part in answer["topics"][0]["partitions"])

    # What is put in the place of what differs.

    def normal(self, name, value):
        """The value of a field, comparable."""
        if isinstance(value, dict):
            return {key: self.normal(key, part) for key, part in value.items()
                    if key not in IGNORED}
        if isinstance(value, list):
            return self.keyed(name, [self.normal(name, part) for part in value])
        if name in TEXTS:
            return "<text>" if value else None
        if name in IDS:
            return self.names.get(value, "<unknown id>")
        if name in EPOCHS:
            return "<epoch>" if value in self.epochs.values() and value >= 0 else value
        if name in NUMBERS and value > 0:
            return NUMBERS[name]
        return self.normal_place(name, value)

    def normal_place(self, name, value):
        if name == "records":
            return self.normal_records(value)
        if name == "cluster_id" and value == self.cluster_id:
            return "<cluster>"
        if name == "last_timestamp" and value > 0:
            return "<time>"
        if (name, value) in (("host", self.host), ("port", self.port)):
            return f"<{name}>"
        if name == "log_append_time_ms" and abs(value - time.time() * 1000) < CLOCK_TOLERANCE_MS:
            return "<now>"
        return value

    def keyed(self, name, parts):
        """A list whose order means nothing becomes a dictionary."""
        if name in UNORDERED and all(isinstance(part, dict) for part in parts):
            return {f"{part[UNORDERED[name]]}": part for part in parts}
        if name in SORTED:
            return sorted(parts, key=lambda part: [str(part.get(key)) for key in SORTED[name]])
        return parts

    def normal_records(self, data):
        if not data:
            return "<null>" if data is None else []
        found = []
        for base, count, whole in batches(data):
            attributes = int.from_bytes(whole[21:23], "big")
            found.append({"base_offset": base, "count": count, "attributes": attributes,
                          "size": len(whole), "sequence": int.from_bytes(whole[53:57], "big"),
                          "leader_epoch": self.normal("leader_epoch",
                                                      int.from_bytes(whole[12:16], "big")),
                          "values": repr(list(values_of(whole)))[:100]
                          if attributes & 7 == 0 else "<compressed>"})
        whole_size = sum(part["size"] for part in found)
        return found + ([f"{len(data) - whole_size} bytes of a cut batch"]
                        if whole_size < len(data) else [])


def shown(value):
    """A value as it is printed."""
    if isinstance(value, (dict, list)):
        return f"<{len(value)} parts>"
    return "null" if value is None else str(value)


def differences(mine, theirs, path=""):
    """(path, value of the subject, value of the oracle) of all that differ.

    What follows from a difference is not told: the fields beside an error that differs, the
    elements of lists of different lengths, the inside of what one side has not.
    """
    if isinstance(mine, dict) and isinstance(theirs, dict):
        if mine.get("error_code") != theirs.get("error_code"):
            yield f"{path}.error_code", shown(mine.get("error_code")), shown(
                theirs.get("error_code"))
            return
        for key in [*theirs, *(key for key in mine if key not in theirs)]:
            below = f"{path}.{key}" if path else key
            if key not in mine or key not in theirs:
                yield below, *("<there>" if key in side else "<absent>" for side in (mine, theirs))
            else:
                yield from differences(mine[key], theirs[key], below)
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for index, pair in enumerate(zip(mine, theirs)):
            yield from differences(*pair, f"{path}[{index}]")
    elif mine != theirs:
        yield path or "answer", *("<answered>" if isinstance(side, dict) and not path else
                                  shown(side) for side in (mine, theirs))


class Accepted:
    """The differences that are meant: `step | path | subject | oracle | reason`, all but the last
    globs. Without a path there are none."""

    def __init__(self, path):
        self.lines = []
        if path is None:
            return
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = line.strip()
                if line and not line.startswith("#"):
                    parts = [part.strip() for part in line.split("|")]
                    if len(parts) != 5 or not parts[4]:
                        raise SystemExit(f"{path}:{number}: five columns, the last a reason")
                    self.lines.append({"number": number, "globs": parts[:4], "used": 0})

    def find(self, *what):
        """True when a line matches; it then counts as used."""
        for line in self.lines:
            if all(fnmatch.fnmatchcase(one, glob) for one, glob in zip(what, line["globs"])):
                line["used"] += 1
                return True
        return False


class Run:
    """All cases against both systems."""

    def __init__(self, systems, accepted, verbose):
        self.systems, self.accepted, self.verbose = systems, accepted, verbose
        self.compared = self.wrong = self.meant = 0
        self.advertised = self.common_versions()

    def common_versions(self):
        """{api: (min, max)} that both advertise."""
        found = []
        for system in self.systems:
            system.reconnect()
            answer = system.call("ApiVersions", 3, cases.SOFTWARE)
            found.append({item["api_key"]: (item["min_version"], item["max_version"])
                          for item in answer["api_keys"]})
        names = self.systems[0].wire.by_key
        return {names[key]["name"]: (max(low, found[1][key][0]), min(high, found[1][key][1]))
                for key, (low, high) in found[0].items() if key in found[1] and key in names}

    def versions(self, api, wanted):
        """`wanted` is "all", "N", "N-M" or "N-"; all are cut to what both serve."""
        if api not in self.advertised:
            raise SystemExit(f"{api} is not served by both")
        low, high = self.advertised[api]
        low = max(low, self.systems[0].wire.apis[api]["versions"][0])
        if wanted != "all":
            first, dash, last = wanted.partition("-")
            low = max(low, int(first))
            high = min(high, int(last) if last else high if dash else int(first))
        return range(low, high + 1)

    def step(self, case, step):
        api, wanted, values = step[:3]
        options = step[3] if len(step) > 3 else {}
        if api == "settle":
            for system in self.systems:
                system.settle(wanted, values)
            return
        if api == "raw":
            answers = [system.call_raw(values) for system in self.systems]
            self.compare(f"{case}: {wanted}", *answers)
            return
        for version in self.versions(api, wanted):
            answers = [self.one(system, api, version, values, options) for system in self.systems]
            text = getattr(values, "text", values)
            self.compare(f"{case}: {api} v{version} {text}", *answers)

    def one(self, system, api, version, values, options):
        if callable(values):
            values = values(system, version)
        fields = system.wire.apis[api]["request"]
        values = {key: value for key, value in values.items()
                  if any(field["name"] == key for field in fields)}
        if options.get("no_answer"):
            return self.one_way(system, api, version, values)
        for _ in range(TRIES):
            begin = time.monotonic()
            answer = system.call(api, version, values)
            waited = time.monotonic() - begin
            if isinstance(answer, str) or answer.get("error_code") != COORDINATOR_LOAD_IN_PROGRESS:
                break
            time.sleep(0.1)
        if isinstance(answer, str):
            return answer
        if "producer" in options:
            system.producers[options["producer"]] = answer["producer_id"]
        if "session" in options:
            system.session = answer["session_id"]
        normal = system.normal("", answer)
        if "wait_ms" in options:
            normal["waited"] = waited * 1000 >= options["wait_ms"]
        return normal

    @staticmethod
    def one_way(system, api, version, values):
        """A request without an answer: whether the connection still serves the next one."""
        system.client.send_frame(system.wire.request(api, version, values, 77))
        return system.normal("", system.call("ListOffsets", 1, cases.NOTHING_LISTED))

    def compare(self, what, subject, oracle):
        self.compared += 1
        for path, mine, theirs in differences(subject, oracle):
            if self.accepted.find(what, path, mine, theirs):
                self.meant += 1
                if not self.verbose:
                    continue
                print("accepted", end=" ")
            else:
                self.wrong += 1
            print(f"{what} | {path} | {mine} | {theirs}")

    def case(self, name, steps):
        for system in self.systems:
            system.reconnect()
        for step in steps:
            self.step(name, step)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--subject", required=True, help="host:port of the broker that is judged")
    parser.add_argument("--oracle", required=True, help="host:port of the broker that is right")
    parser.add_argument("--case", action="append", help="only cases whose name matches this glob")
    parser.add_argument("--same", action="store_true",
                        help="two brokers of one kind: no difference is accepted")
    parser.add_argument("--verbose", action="store_true", help="accepted differences as well")
    arguments = parser.parse_args()
    wire = Wire()
    systems = [System("subject", arguments.subject, wire),
               System("oracle", arguments.oracle, wire)]
    accepted = Accepted(None if arguments.same else os.path.join(HERE, "accepted.txt"))
    run = Run(systems, accepted, arguments.verbose)
    for name, steps in [*cases.CASES, *admin_cases.CASES]:
        if not arguments.case or any(fnmatch.fnmatchcase(name, glob) for glob in arguments.case):
            run.case(name, steps)
    unused = [] if arguments.case else [line for line in accepted.lines if not line["used"]]
    for line in unused:
        print(f"accepted.txt:{line['number']}: matched no difference: remove it")
    print(f"{run.compared} answers compared: {run.wrong} differences, {run.meant} accepted")
    sys.exit(1 if run.wrong or unused else 0)


if __name__ == "__main__":
    main()
