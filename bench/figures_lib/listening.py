"""Starts a broker and prints its pid and the milliseconds until a connect succeeds."""
import os
import socket
import subprocess
import sys
import time


def main():
    """listening.py BINARY CONFIG PORT LOG"""
    binary, config, port, log = sys.argv[1:5]
    with open(log, "ab") as out:
        began = time.perf_counter()
        process = subprocess.Popen([binary, "serve", "--config", config], stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        while time.perf_counter() - began < 60 and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", int(port)), 1).close()
            except OSError:
                time.sleep(0.001)
                continue
            print(process.pid, (time.perf_counter() - began) * 1000)
            return 0
    return 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
