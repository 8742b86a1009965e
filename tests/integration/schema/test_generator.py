#!/usr/bin/env python3
"""What generate.py must refuse, each with the reason; and that it is deterministic."""

import subprocess
import sys
import tempfile
from pathlib import Path

PROTOCOL = Path(__file__).resolve().parents[3] / "src" / "protocol"
HEAD = "api 1 Some\nversions 0-3\nflexible 2+\nrequest\n"
TAIL = "\nresponse\n    error_code int16 0+\n"

# Lines of the request -> a part of the message.
REFUSED = [
    ("    name string", "a field needs name, type and versions"),
    ("    name string 3-1", "empty version range"),
    ("    name string x", "bad version range"),
    ("    Name string 0+", "bad field name"),
    ("    name string 0+ nullabel=1+", "unknown attribute"),
    ("    name string 0+ default=null", "null default, but never nullable"),
    ("    count int32 0+ nullable=1+", "cannot be null"),
    ("    count int32 0+ default=many", "invalid literal"),
    ("    name uuid 0+ default=1", "takes no default but null"),
    ("    name string 2+ tagged=2+", "'tagged' without 'tag'"),
    ("    name string 1+ tag=0", "tag in a version that is not flexible"),
    ("    name thing 0+", "fields belong to a struct"),
    ("    a int8 0+\n    a int8 0+", "twice in one struct"),
    ("    a []t 0+\n        x int8 0+\n    b []t 0+\n        y int8 0+", "defined twice"),
    ("    a []t 0+\n        x int8 1+", "array of nothing at version 0"),
    ("   name string 0+", "multiples of four"),
    ("        name string 0+", "indented too far"),
    ("surprise", "unknown line"),
]


def generate(directory, *texts):
    paths = []
    for index, text in enumerate(texts):
        path = Path(directory) / f"{index}.schema"
        path.write_text(text)
        paths.append(path)
    return subprocess.run([sys.executable, PROTOCOL / "generate.py", "--output-dir",
                           Path(directory) / "out", *paths], capture_output=True, text=True)


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        good = HEAD + "    name string 0+" + TAIL
        first = generate(directory, good)
        emitted = (Path(directory) / "out" / "messages_generated.c").read_bytes()
        generate(directory, good)
        if first.returncode != 0:
            sys.exit(f"a good schema was refused: {first.stderr}")
        if (Path(directory) / "out" / "messages_generated.c").read_bytes() != emitted:
            sys.exit("two runs differ")
        for lines, message in REFUSED:
            result = generate(directory, HEAD + lines + TAIL)
            if result.returncode == 0 or message not in result.stderr:
                failures += 1
                print(f"{lines!r}: expected '{message}', got {result.returncode} {result.stderr}")
        result = generate(directory, good, good.replace("Some", "Other"))
        if result.returncode == 0 or "an api number is used twice" not in result.stderr:
            failures += 1
            print(f"a key used twice: {result.returncode} {result.stderr}")
    sys.exit(f"{failures} failures" if failures else 0)


if __name__ == "__main__":
    main()
