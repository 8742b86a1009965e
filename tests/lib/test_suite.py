#!/usr/bin/env python3
"""The self-test of the runner and of the helpers: a failure must never be counted as anything else.

A small fake broker stands in for the real one, so that this runs before there is any.
"""
import argparse
import os
import struct
import sys
import tempfile
import threading
import unittest
import unittest.mock
import xml.etree.ElementTree
from contextlib import redirect_stdout
from io import StringIO
import socket

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import checks  # noqa: E402
import processes  # noqa: E402
import suite  # noqa: E402
import twinlog_test  # noqa: E402

FAKE_BROKER = """#!/usr/bin/env python3
import os, signal, socket, sys
settings = dict(line.strip().split("=", 1) for line in open(sys.argv[3]))
if sys.argv[1] == "format":
    os.mkdir(settings["log.dirs"])
    sys.exit(0)
print("fake broker starts", file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, lambda *_: os._exit(int(settings.get("end.status", "0"))))
if settings.get("end.at.start"):
    sys.exit(3)
server = socket.create_server(("127.0.0.1", int(settings["listeners"].rsplit(":", 1)[1])))
while True:
    connection = server.accept()[0]
    request = connection.recv(1000)
    connection.sendall(b"\\0\\0\\0\\6" + request[8:12] + b"\\0\\0")
    connection.close()
"""


def new_suite(**environment):
    options = argparse.Namespace(filter="", all=False, preset="dev", list=False)
    with unittest.mock.patch.dict(os.environ, environment):
        return suite.Suite(options)


class RunnerTest(unittest.TestCase):
    def outcome_of(self, script, timeout=10, **environment):
        runner = new_suite(**environment)
        with redirect_stdout(StringIO()) as output:
            runner.run("self", ["bash", "-c", script], timeout)
        return runner.counts, output.getvalue()

    def test_the_exit_status_decides(self):
        for script, expected in (("exit 0", "passed"), ("exit 1", "failed"), ("exit 77", "skipped"),
                                 ("kill -9 $$", "failed"), ("exit 127", "failed")):
            counts, _ = self.outcome_of(f"echo why; {script}", TWINLOG_STRICT="0")
            self.assertEqual({k: v for k, v in counts.items() if v}, {expected: 1}, script)

    def test_a_skip_carries_its_reason_and_is_a_failure_in_strict_mode(self):
        counts, output = self.outcome_of("echo first; echo no client; exit 77", TWINLOG_STRICT="0")
        self.assertEqual(counts["skipped"], 1)
        self.assertIn("no client", output)
        counts, output = self.outcome_of("echo no client; exit 77", TWINLOG_STRICT="1")
        self.assertEqual((counts["failed"], counts["skipped"]), (1, 0))
        self.assertIn("no client", output)

    def test_a_timeout_fails_and_ends_the_children_too(self):
        with tempfile.TemporaryDirectory() as folder:
            pid_file = os.path.join(folder, "pid")
            counts, output = self.outcome_of(f"sleep 100 & echo $! > {pid_file}; wait", timeout=1)
            self.assertEqual(counts["failed"], 1)
            self.assertIn("no end after 1 s", output)
            with open(pid_file, encoding="utf-8") as stream:
                child = int(stream.read())
            twinlog_test.wait_until(lambda: not self.is_running(child), 10, "the child is gone")

    @staticmethod
    def is_running(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
                return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def test_a_command_that_cannot_start_fails(self):
        runner = new_suite()
        with redirect_stdout(StringIO()):
            self.assertFalse(runner.run("self", ["/nonexistent/program"], 5))
        self.assertEqual(runner.counts["failed"], 1)

    def test_junit_cases_of_every_kind(self):
        rows = [
            ('<testcase status="run"/>', "passed"),
            ('<testcase status="fail"><failure message="Failed"/></testcase>', "failed"),
            ('<testcase status="fail"><failure message="Timeout"/></testcase>', "failed"),
            ('<testcase status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>',
             "skipped"),
            ('<testcase status="notrun"><skipped message="Unable to find executable"/></testcase>',
             "failed"),
            ('<testcase status="disabled"><skipped message="Disabled"/></testcase>', "failed"),
            ("<testcase/>", "failed"),
        ]
        for text, expected in rows:
            case = xml.etree.ElementTree.fromstring(text)
            self.assertEqual(suite.junit_outcome(case)[0], expected, text)

    def test_the_header_of_a_script(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_a.sh")
            for text, expected in (("#!/bin/sh\n", (120, False)),
                                   ("#!/bin/sh\n# timeout: 300\n", (300, False)),
                                   ("#!/bin/sh\n# long\n# timeout: 7\n", (7, True)),
                                   ("#!/bin/sh\n# longer than usual\n", (120, False))):
                with open(path, "w", encoding="utf-8") as stream:
                    stream.write(text)
                self.assertEqual(suite.script_header(path), expected)

    def test_ports_come_in_free_ranges_that_do_not_overlap(self):
        bases = [processes.free_port_base() for _ in range(50)]
        self.assertEqual(len(set(bases)), 50)
        self.assertTrue(all(base % processes.PORT_STEP == 0 for base in bases))


class ChecksTest(unittest.TestCase):
    def test_an_analyser_that_is_missing_is_a_finding(self):
        status, lines = checks.finished(["/nonexistent/analyser"], "/")
        self.assertNotEqual(status, 0)
        self.assertTrue(lines)

    def test_a_missing_compilation_database_is_a_finding(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertTrue(checks.check_clang_tidy(folder, os.path.join(folder, "build")))


class BrokerHelperTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        binary = os.path.join(self.folder.name, "broker")
        with open(binary, "w", encoding="utf-8") as stream:
            stream.write(FAKE_BROKER)
        os.chmod(binary, 0o755)
        patch = unittest.mock.patch.dict(os.environ, {
            "TWINLOG_BIN": binary, "TWINLOG_TMP": self.folder.name,
            "TWINLOG_PORT": str(twinlog_test.free_port())})
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_broker_starts_is_killed_starts_again_and_stops(self):
        with twinlog_test.Broker() as broker:
            broker.kill()
            broker.start()
            with broker.connect() as client:
                self.assertEqual(client.request(twinlog_test.API_VERSIONS, 0), b"\0\0")
                self.assertTrue(client.is_closed())
            self.assertIn("fake broker starts", broker.trace())
        self.assertIsNone(broker.process)

    def test_an_unclean_end_fails_the_test(self):
        with self.assertRaisesRegex(twinlog_test.CheckFailed, "status 9"):
            with twinlog_test.Broker({"end.status": "9"}):
                pass

    def test_an_end_at_start_is_told_with_its_status(self):
        broker = twinlog_test.Broker({"end.at.start": "1"})
        broker.format()
        with self.assertRaisesRegex(twinlog_test.CheckFailed, "status 3"):
            broker.start()

    def test_a_kill_of_a_broker_that_had_ended_fails_the_test(self):
        broker = twinlog_test.Broker()
        broker.format()
        broker.start()
        broker.process.terminate()
        broker.process.wait()
        with self.assertRaisesRegex(twinlog_test.CheckFailed, "had ended"):
            broker.kill()


class ClientTest(unittest.TestCase):
    def answer(self, make_response):
        """A client on a server that answers one frame with make_response(frame)."""
        server = socket.create_server(("127.0.0.1", 0))

        def serve():
            connection = server.accept()[0]
            with server, connection, connection.makefile("rb") as stream:
                size, = struct.unpack(">i", stream.read(4))
                connection.sendall(make_response(stream.read(size)))
        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        return twinlog_test.Client(server.getsockname()[1])

    def test_a_request_carries_its_header_and_the_answer_is_matched(self):
        frames = []

        def respond(frame):
            frames.append(frame)
            return struct.pack(">ii", 8, 1) + b"\0tag"
        with self.answer(respond) as client:
            self.assertEqual(client.request(3, 12, b"body", flexible=True), b"tag")
        self.assertEqual(frames, [bytes.fromhex("0003000c 00000001 0004 74657374 00") + b"body"])

    def test_another_correlation_id_fails(self):
        with self.answer(lambda frame: struct.pack(">ii", 4, 7)) as client:
            with self.assertRaises(twinlog_test.CheckFailed):
                client.request(3, 0)

    def test_a_frame_cut_short_fails(self):
        with self.answer(lambda frame: struct.pack(">ii", 40, 1)) as client:
            with self.assertRaises(EOFError):
                client.request(3, 0)


if __name__ == "__main__":
    unittest.main()
