#!/usr/bin/env python3
"""Gates the house style that a formatter cannot see, and reports what it only measures.

    tests/tidy/tidy.py            check the repository; exit 1 when something is wrong
    tests/tidy/tidy.py FILE...    check these files only
    tests/tidy/tidy.py --report   print the measures as well

Each rule is a function in RULES; tests/tidy/test_tidy.py holds a bad sample for every one of them.
"""
import argparse
import ast
import os
import re
import statistics
import subprocess
import sys

import scan

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100

# Written apart, because this file is checked too.
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]

BANNED_EVERYWHERE = {
    "strcpy": "memcpy with a known size",
    "strncpy": "memcpy with a known size (strncpy may leave no NUL)",
    "stpcpy": "memcpy with a known size",
    "strcat": "snprintf into the whole buffer",
    "strncat": "snprintf into the whole buffer",
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "strtok": "a struct bytes cursor, or strtok_r",
    "gets": "fgets",
    "atoi": "strtol with its end checked",
    "atol": "strtol with its end checked",
    "atoll": "strtoll with its end checked",
    "alloca": "the request's arena",
    "rand": "io_random",
    "srand": "a seed passed to the generator",
}

SEAM_FILE = "src/io (the simulator cannot see a file touched behind its back)"
SEAM_NETWORK = "src/io (the simulator cannot see the network touched behind its back)"
SEAM_CLOCK = "the clock of src/io, which the simulator owns"
SEAM_RANDOM = "the random source of src/io, which the simulator seeds"
SEAM_THREAD = "io_offload, which the simulator runs too"

# What only src/io (and trace.c, for diagnostics) may call in the code that the simulator runs.
BANNED_BEHIND_THE_SEAM = {
    **dict.fromkeys(
        "open openat creat fopen fdopen read pread readv preadv preadv2 write pwrite writev "
        "pwritev pwritev2 fread fwrite fsync fdatasync syncfs sync sync_file_range fallocate "
        "posix_fallocate ftruncate truncate rename renameat unlink unlinkat remove mkdir mkdirat "
        "rmdir opendir readdir scandir stat fstat lstat statvfs fstatvfs flock msync "
        "sendfile splice copy_file_range".split(), SEAM_FILE),
    **dict.fromkeys(
        "socket bind listen accept accept4 connect send sendto sendmsg recv recvfrom recvmsg "
        "shutdown setsockopt getaddrinfo select poll ppoll epoll_create1 epoll_wait".split(),
        SEAM_NETWORK),
    **dict.fromkeys(
        "time clock clock_gettime gettimeofday timespec_get sleep usleep nanosleep "
        "clock_nanosleep timerfd_create".split(), SEAM_CLOCK),
    **dict.fromkeys(
        "random drand48 lrand48 getrandom getentropy arc4random rand_r".split(), SEAM_RANDOM),
    **dict.fromkeys("pthread_create thrd_create fork".split(), SEAM_THREAD),
}

SEAM_FOLDERS = ("src/core/", "src/log/", "src/net/", "src/broker/", "src/protocol/", "src/repl/")
SEAM_EXEMPT = ("src/core/trace.c",)

CALL = re.compile(r"(?<![\w.])(?<!->)([a-z_]\w*)\s*\(")


class File:
    """A file of the repository: its text, and for C its parts. `path` is relative to the root."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), "rb") as stream:
            raw = stream.read()
        self.is_binary = b"\0" in raw[:4096]
        self.text = raw.decode("utf-8", errors="replace")
        self.lines = self.text.splitlines()
        self.is_c = path.endswith((".c", ".h"))
        self.is_header = path.endswith(".h")
        self.is_python = path.endswith(".py") or self.text.startswith("#!/usr/bin/env python3")
        self.is_shell = path.endswith(".sh") or bool(re.match(r"#!.*\b(ba|da)?sh\b", self.text))
        self.is_code = self.is_c or self.is_python or self.is_shell
        self.c = scan.Source(self.text) if self.is_c else None


def check_file_lines(file):
    if file.is_code and len(file.lines) > FILE_LINES_MAX:
        yield 1, f"{len(file.lines)} lines, at most {FILE_LINES_MAX}: split the file by subject"


def check_columns(file):
    for number, line in enumerate(file.lines, 1):
        if file.is_code and len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"


def python_functions(file):
    try:
        tree = ast.parse(file.text)
    except SyntaxError as error:
        yield scan.Function("(syntax error)", error.lineno or 1, 10**6)
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield scan.Function(node.name, node.lineno, node.end_lineno)


def functions_of(file):
    if file.is_c:
        return file.c.functions
    return list(python_functions(file)) if file.is_python else []


def check_function_lines(file):
    for function in functions_of(file):
        if function.line_count > FUNCTION_LINES_MAX:
            yield function.first, (f"{function.name} has {function.line_count} lines, at most "
                                   f"{FUNCTION_LINES_MAX}: name a part of it")


def check_prototype_comments(file):
    if not (file.is_header and file.path.startswith("include/")):
        return
    for name, line in file.c.undocumented_prototypes():
        yield line, f"{name} has no comment right above it: say what it does, owns and returns"


def check_banned_calls(file):
    if not file.is_c:
        return
    banned = dict(BANNED_EVERYWHERE)
    if file.path.startswith(SEAM_FOLDERS) and file.path not in SEAM_EXEMPT:
        banned.update(BANNED_BEHIND_THE_SEAM)
    for number, line in enumerate(file.c.code_lines, 1):
        for match in CALL.finditer(line):
            if match.group(1) in banned:
                yield number, f"{match.group(1)}() is banned here: use {banned[match.group(1)]}"


def check_unfinished_marks(file):
    pattern = re.compile(r"\b(" + "|".join(UNFINISHED) + r")\b")
    for number, line in enumerate(file.lines, 1):
        match = pattern.search(line)
        if match:
            yield number, f"unfinished mark {match.group(1)}: finish it, or leave it out"


def check_header_guard(file):
    if not file.is_header:
        return
    directives = [line for line in file.c.directives if line[1].startswith("#")]
    texts = [text for _, text in directives]
    guard = re.match(r"#ifndef (TWINLOG_\w+_H)$", texts[0]) if texts else None
    if not guard or len(texts) < 3 or texts[1] != f"#define {guard.group(1)}":
        yield 1, "no header guard: begin with #ifndef TWINLOG_<FOLDER>_<FILE>_H and its #define"
    elif texts[-1].split()[0] != "#endif" or file.c.has_code_after(directives[-1][0]):
        yield directives[-1][0], "the header guard must end with the file"
    else:
        stem = re.sub(r"\W", "_", os.path.basename(file.path)).upper()
        if not guard.group(1).endswith("_" + stem):
            yield directives[0][0], f"the guard must be named after the file: TWINLOG_..._{stem}"


def check_conditions_in_functions(file):
    if not file.is_c:
        return
    for line, text in file.c.directives:
        if re.match(r"#(if|ifdef|ifndef|elif|else)\b", text):
            for function in file.c.functions:
                if function.first < line < function.last:
                    yield line, f"{text.split()[0]} inside {function.name}: choose a whole function"


def check_braces(file):
    if not file.is_c:
        return
    for line in file.c.unbraced_statements():
        yield line, "a branch or loop without braces"


RULES = [check_file_lines, check_columns, check_function_lines, check_prototype_comments,
         check_banned_calls, check_unfinished_marks, check_header_guard,
         check_conditions_in_functions, check_braces]


def repository_files(root):
    """What git tracks or would track; everything when there is no repository."""
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        paths = sorted(set(listed.split("\0")) - {""})
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "build", "data", ".cache")]
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
        paths.sort()
    return [path for path in paths if os.path.isfile(os.path.join(root, path))]


def check(root, paths):
    """All findings as (path, line, message), and the files that were read."""
    findings = []
    files = []
    for path in paths:
        file = File(root, path)
        if file.is_binary:
            continue
        files.append(file)
        for rule in RULES:
            findings += [(path, line, message) for line, message in rule(file)]
    return findings, files


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def report(files):
    """The measures that are not gated, for each folder of src/ and for all of it."""
    print(f"{'folder':<16}{'lines':>7}{'functions':>11}{'median':>8}{'p90':>6}"
          f"{'asserts/f':>11}{'comments':>10}")
    sources = [file for file in files if file.is_c and file.path.startswith(("src/", "bench/"))]
    folders = sorted({os.path.dirname(file.path) for file in sources})
    for folder in folders + ["(all)"]:
        chosen = [f for f in sources if folder in ("(all)", os.path.dirname(f.path))]
        lengths = [fn.line_count for f in chosen for fn in f.c.functions] or [0]
        asserts = sum(f.c.code.count("ASSERT(") for f in chosen)
        bodies = [f for f in chosen if not f.is_header]
        comments = sum(f.c.comment_line_count for f in bodies)
        written = sum(1 for f in bodies for line in f.lines if line.strip()) or 1
        print(f"{folder:<16}{sum(len(f.lines) for f in chosen):>7}{len(lengths):>11}"
              f"{statistics.median(lengths):>8.0f}{percentile(lengths, 0.9):>6}"
              f"{asserts / len(lengths):>11.2f}{comments / written:>10.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--report", action="store_true", help="print the measures as well")
    parser.add_argument("paths", nargs="*", help="files to check, relative to the root")
    arguments = parser.parse_args()
    root = os.path.abspath(arguments.root)
    findings, files = check(root, arguments.paths or repository_files(root))
    for path, line, message in findings:
        print(f"{path}:{line}: {message}")
    if arguments.report:
        report(files)
    print(f"tidy: {len(files)} files, {len(findings)} findings")
    return 1 if findings or not files else 0


if __name__ == "__main__":
    sys.exit(main())
