"""Prints the MiB/s at which the segment files below a directory are read, past the page cache."""
import mmap
import os
import sys
import time

STEP = 1 << 20


def main():
    """The rate over all files, each from its beginning in steps of a MiB, one in flight."""
    total = 0
    started = time.monotonic()
    buffer = mmap.mmap(-1, STEP)
    for directory, _, names in os.walk(sys.argv[1]):
        for name in sorted(names):
            if name.endswith(".log") and not name.startswith("server"):
                total += read_all(os.path.join(directory, name), buffer)
    seconds = time.monotonic() - started
    print(f"{total / seconds / (1 << 20):.1f}")
    return 0 if total > 0 else 1


def read_all(path, buffer):
    """Bytes of one file, which it reads with O_DIRECT."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    size = 0
    try:
        while True:
            count = os.preadv(fd, [buffer], size)
            size += count
            if count < STEP:
                return size
    finally:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
