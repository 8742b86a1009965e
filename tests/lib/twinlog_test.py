"""What integration tests share: a broker of their own, and a client that speaks raw frames.

    from twinlog_test import Broker, Client, check, skip

    with Broker() as broker:
        with broker.connect() as client:
            body = client.request(18, 0)
            check(body[:2] == b"\\0\\0", "ApiVersions v0 answers without an error")

Environment, set by ./test: TWINLOG_BIN (the broker), TWINLOG_TMP (a fresh folder) and TWINLOG_PORT
(the first of 20 free ports). A test exits with 0 (passed), 77 (skipped, reason on the last line) or
anything else (failed).
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

READY_SECONDS = 30
STOP_SECONDS = 30
FRAME_SIZE_MAX = 256 << 20
API_VERSIONS = 18


class CheckFailed(AssertionError):
    """A check of a test that does not hold."""


def check(condition, message):
    """Fails the test unless the condition holds."""
    if not condition:
        raise CheckFailed(message)


def check_equal(actual, expected, what="value"):
    """Fails the test unless both are equal, and shows both."""
    if actual != expected:
        raise CheckFailed(f"{what}: {actual!r} instead of {expected!r}")


def skip(reason):
    """Ends the test as skipped."""
    print(reason)
    sys.exit(77)


def wait_until(condition, seconds, what):
    """Calls `condition` until it returns something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise CheckFailed(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def free_port():
    """A port of 127.0.0.1 that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client:
    """One TCP connection that sends and reads length-prefixed frames, whole or in pieces."""

    def __init__(self, port, host="127.0.0.1", timeout=30):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send_raw(self, data):
        """Bytes as they are; text is hex, spaces allowed."""
        self.socket.sendall(bytes.fromhex(data) if isinstance(data, str) else data)

    def send_frame(self, payload):
        """The payload behind its length."""
        payload = bytes.fromhex(payload) if isinstance(payload, str) else payload
        self.send_raw(struct.pack(">i", len(payload)) + payload)

    def _read(self, size):
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError(f"closed after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def read_frame(self):
        """The payload of the next response. EOFError when the broker has closed."""
        size, = struct.unpack(">i", self._read(4))
        check(0 <= size <= FRAME_SIZE_MAX, f"a response has size {size}")
        return self._read(size)

    def is_closed(self, seconds=10):
        """Whether the broker closes the connection within the time, sending nothing more."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except socket.timeout:
            return False

    def send_request(self, api_key, version, body=b"", flexible=False, client_id="test"):
        """Sends a request with its header and returns its correlation id."""
        self.correlation_id += 1
        name = client_id.encode()
        header = struct.pack(">hhih", api_key, version, self.correlation_id, len(name)) + name
        self.send_frame(header + (b"\0" if flexible else b"") + body)
        return self.correlation_id

    def read_response(self, correlation_id, flexible=False):
        """The body of the next response, which must carry the correlation id.

        ApiVersions is the exception of KIP-511: its response header is never flexible.
        """
        frame = self.read_frame()
        actual, = struct.unpack(">i", frame[:4])
        check_equal(actual, correlation_id, "correlation id")
        if not flexible:
            return frame[4:]
        check_equal(frame[4], 0, "count of tagged fields in the response header")
        return frame[5:]

    def request(self, api_key, version, body=b"", flexible=False):
        """One round trip; returns the body of the response."""
        correlation_id = self.send_request(api_key, version, body, flexible)
        return self.read_response(correlation_id, flexible and api_key != API_VERSIONS)


class Broker:
    """A broker process with its own port and data; ended, and checked for a clean end, on exit."""

    def __init__(self, settings=None, port=None, folder=None):
        self.binary = os.environ.get("TWINLOG_BIN", "build/dev/bin/twinlog")
        self.port = port or int(os.environ.get("TWINLOG_PORT", free_port()))
        parent = folder or os.environ.get("TWINLOG_TMP") or tempfile.mkdtemp()
        self.folder = tempfile.mkdtemp(prefix="broker-", dir=parent)
        self.data = os.path.join(self.folder, "data")
        self.config = os.path.join(self.folder, "twinlog.properties")
        self.log = os.path.join(self.folder, "broker.log")
        self.settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": self.data,
            "auto.create.topics.enable": "true",
            "num.partitions": "1",
            "log.retention.ms": "-1",  # the records of tests are old
            **(settings or {}),
        }
        self.process = None
        self._write_config()

    def _write_config(self):
        with open(self.config, "w", encoding="utf-8") as stream:
            stream.writelines(f"{key}={value}\n" for key, value in self.settings.items())

    def configure(self, **settings):
        """Changes settings for the next start; `_` in a name stands for a dot."""
        self.settings.update({key.replace("_", "."): value for key, value in settings.items()})
        self._write_config()

    def command(self, verb, *arguments):
        """Runs the program with this configuration; returns (status, stdout and stderr)."""
        done = subprocess.run([self.binary, verb, "--config", self.config, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def format(self):
        """Prepares the data folder."""
        status, output = self.command("format")
        check_equal(status, 0, f"status of format ({output.strip()})")

    def start(self, *arguments, wait=True):
        """Starts the broker on what is in its folder, and waits until it answers."""
        check(self.process is None, "the broker runs already")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--config", self.config, *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            wait_until(self._is_ready, READY_SECONDS, "the broker answers")

    def _is_ready(self):
        if self.process.poll() is not None:
            status, self.process = self.process.returncode, None
            raise CheckFailed(f"the broker ended at start with status {status}:\n{self.trace()}")
        # An answer, not only a connection: after kill -9 the kernel lets go of an io_uring a moment
        # after the process is reaped, and until then the old listener still accepts.
        try:
            with self.connect(timeout=1) as client:
                client.request(API_VERSIONS, 0)
                return True
        except (OSError, EOFError):
            return False

    def connect(self, timeout=30):
        """A new connection."""
        return Client(self.port, timeout=timeout)

    def _end(self, sign, seconds):
        process, self.process = self.process, None
        process.send_signal(sign)
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise CheckFailed(f"no end {seconds} s after {sign.name}:\n{self.trace()}") from None

    def stop(self):
        """Ends the broker with SIGTERM; anything but status 0 fails the test."""
        if self.process is not None:
            status = self._end(signal.SIGTERM, STOP_SECONDS)
            check(status == 0, f"the broker ended with status {status}:\n{self.trace()}")

    def kill(self):
        """kill -9. The broker must have been alive until then."""
        check(self.process.poll() is None, f"the broker had ended before:\n{self.trace()}")
        check_equal(self._end(signal.SIGKILL, STOP_SECONDS), -signal.SIGKILL, "status")

    def trace(self, count=40):
        """The last lines the broker wrote."""
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return "".join(stream.readlines()[-count:])

    def __enter__(self):
        self.format()
        self.start()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        elif self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            print(f"--- the broker's last lines\n{self.trace()}", file=sys.stderr)
