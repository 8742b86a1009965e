#!/usr/bin/env python3
"""The runner behind ./test: builds, runs every kind of test, and sums what passed and failed.

Each kind is a function that takes the Suite and records outcomes. Output of a test goes to
build/test-logs/ and is shown only when the test fails.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

import checks
import processes

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LOGS = os.path.join(ROOT, "build", "test-logs")
JOBS = str(os.cpu_count() or 1)
SKIPPED = 77
FUZZ_SECONDS = 60
MEMLOCK_MAX = 8 << 20


class Suite:
    """The options, and the outcomes so far."""

    def __init__(self, options):
        self.options = options
        self.strict = os.environ.get("TWINLOG_STRICT") == "1"
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failures = []
        os.makedirs(LOGS, exist_ok=True)

    def wants(self, name):
        return not self.options.filter or re.search(self.options.filter, name)

    def record(self, name, outcome, seconds=0.0, reason=""):
        """Counts and prints one outcome. In strict mode nothing may be skipped."""
        if outcome == "skipped" and self.strict:
            outcome, reason = "failed", f"skipped in strict mode: {reason}"
        self.counts[outcome] += 1
        if outcome == "failed":
            self.failures.append(name)
        note = f": {reason}" if reason else ""
        print(f"{outcome:<8}{name} ({seconds:.1f} s){note}", flush=True)

    def run(self, name, command, timeout, **keywords):
        """Runs one command as one test. Returns whether it passed."""
        log = os.path.join(LOGS, re.sub(r"\W+", "-", name) + ".log")
        started = time.monotonic()
        status = processes.run_logged(command, log, timeout, **keywords)
        seconds = time.monotonic() - started
        if status == 0:
            self.record(name, "passed", seconds)
        elif status == SKIPPED:
            lines = processes.tail(log, 1)
            self.record(name, "skipped", seconds, lines[0] if lines else "no reason given")
        else:
            reason = f"no end after {timeout} s" if status is None else f"exit status {status}"
            self.record(name, "failed", seconds, f"{reason}, log in {os.path.relpath(log, ROOT)}")
            print("\n".join("    | " + line for line in processes.tail(log, 40)))
        return status == 0


def build_folder(preset):
    return os.path.join(ROOT, "build", preset)


def build(suite, preset):
    """Configures and builds one preset; what can be built is built even when something cannot."""
    command = (f"cmake --preset {preset} -S . $LAUNCHER && "
               f"cmake --build build/{preset} -j {JOBS} -- -k 0")
    launcher = "-DCMAKE_C_COMPILER_LAUNCHER=ccache" if shutil.which("ccache") else ""
    return suite.run(f"build/{preset}", ["bash", "-c", command], 1800, cwd=ROOT,
                     env={**os.environ, "LAUNCHER": launcher})


def junit_outcome(case):
    """How a test case of ctest ended; a missing program is "notrun" as well, but no skip."""
    skip = case.find("skipped")
    if skip is not None and "SKIP_RETURN_CODE" in skip.get("message", ""):
        return "skipped", skip.get("message")
    if case.get("status") == "run":
        return "passed", ""
    detail = case.find("failure") if skip is None else skip
    message = detail.get("message") if detail is not None else ""
    return "failed", message or "see its output"


def run_ctest(suite, preset, labels=None):
    """Runs the preset's ctest, and takes the outcomes from its JUnit file."""
    folder = build_folder(preset)
    junit = os.path.join(folder, "junit.xml")
    if os.path.exists(junit):
        os.remove(junit)
    command = ["ctest", "--test-dir", folder, "-j", JOBS, "--output-on-failure", "--output-junit",
               junit, "--timeout", "600"]
    command += ["-L", labels] if labels else []
    command += [] if suite.options.all else ["-LE", "long"]
    command += ["-R", suite.options.filter] if suite.options.filter else []
    log = os.path.join(LOGS, f"ctest-{preset}.log")
    processes.run_logged(command, log, 3600, cwd=ROOT)
    if not os.path.exists(junit):
        suite.record(f"ctest/{preset}", "failed", reason=f"no results, log in {log}")
        return
    cases = xml.etree.ElementTree.parse(junit).getroot().findall("testcase")
    if not cases and not suite.options.filter:
        suite.record(f"ctest/{preset}", "failed", reason="it found no tests")
    for case in cases:
        outcome, reason = junit_outcome(case)
        suite.record(f"{preset}:{case.get('name')}", outcome, float(case.get("time", 0)), reason)
        if outcome == "failed":
            text = (case.findtext("system-out") or "").splitlines()[-40:]
            print("\n".join("    | " + line for line in text))


def script_tests():
    """The executables of tests/integration and compat, relative to the root, in a fixed order."""
    found = []
    for top, pattern in (("tests/integration", r"test_\w+\.(sh|py)$"), ("compat", r"test")):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                path = os.path.join(folder, name)
                if re.match(pattern, name) and os.access(path, os.X_OK):
                    found.append(os.path.relpath(path, ROOT))
    return sorted(found)


def script_header(path):
    """(timeout in seconds, whether it is long), from the first lines of a script."""
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as stream:
        head = stream.read(4096).splitlines()[:20]
    timeouts = [re.match(r"# timeout: (\d+)", line) for line in head]
    seconds = [int(match.group(1)) for match in timeouts if match]
    return (seconds[0] if seconds else 120), any(re.match(r"# long\b", line) for line in head)


def run_scripts(suite, preset):
    """Runs the integration and client tests against the broker of `preset`, one after another."""
    for path in script_tests():
        name = f"{preset}:{path}"
        timeout, is_long = script_header(path)
        if not suite.wants(name) or (is_long and not suite.options.all):
            continue
        with processes.temporary_folder() as folder:
            env = {
                **os.environ,
                "TWINLOG_BIN": os.path.join(build_folder(preset), "bin", "twinlog"),
                "TWINLOG_BENCH": os.path.join(build_folder("release"), "bin", "twinlog-bench"),
                "TWINLOG_TMP": folder,
                "TWINLOG_PORT": str(processes.free_port_base()),
                "PYTHONPATH": os.path.join(ROOT, "tests", "lib"),
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            suite.run(name, [os.path.join(ROOT, path)], timeout, cwd=ROOT, env=env)


def run_as_nobody(suite, preset):
    """Runs the unit and simulation tests without privileges and with 8 MiB of locked memory."""
    tests = processes.ctest_programs(build_folder(preset), ("unit", "sim"), suite.options.all)
    prefix = ["prlimit", f"--memlock={MEMLOCK_MAX}", "--", "setpriv", "--reuid=nobody",
              "--regid=nogroup", "--clear-groups", "--no-new-privs", "--"]
    with processes.readable_copy(ROOT, build_folder(preset)) as place:
        if not tests:
            suite.record("nobody", "failed", reason="no unit or simulation tests were found")
        for name, command, timeout in tests:
            full = f"nobody:{name}"
            if suite.wants(full):
                with processes.temporary_folder("nobody") as folder:
                    env = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder}
                    suite.run(full, prefix + [place(part) for part in command], timeout,
                              cwd=folder, env=env)


def run_fuzz(suite):
    """A minute for each fuzz target, from its corpus in tests/fuzz/corpus/ when there is one."""
    build(suite, "fuzz")
    folder = os.path.join(build_folder("fuzz"), "bin")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in [name for name in names if name.startswith("fuzz-")]:
        if suite.wants(f"fuzz:{name}"):
            corpus = os.path.join(ROOT, "tests", "fuzz", "corpus", name[len("fuzz-"):])
            with processes.temporary_folder() as found:
                suite.run(f"fuzz:{name}", [
                    os.path.join(folder, name), f"-max_total_time={FUZZ_SECONDS}", "-timeout=10",
                    "-rss_limit_mb=2048", f"-artifact_prefix={LOGS}/{name}-", found,
                ] + ([corpus] if os.path.isdir(corpus) else []), FUZZ_SECONDS + 60, cwd=ROOT)


def run_checks(suite, preset):
    """The formatter and the static analysers."""
    for name, check in checks.CHECKS.items():
        if suite.wants(name):
            started = time.monotonic()
            findings = check(ROOT, build_folder(preset))
            seconds = time.monotonic() - started
            outcome = "failed" if findings else "passed"
            suite.record(name, outcome, seconds, f"{len(findings)} findings" if findings else "")
            print("\n".join("    | " + line for line in findings[:60]), end="\n" * bool(findings))


def run_all(suite):
    preset = suite.options.preset
    build(suite, preset)
    if preset != "release":
        build(suite, "release")
    run_ctest(suite, preset)
    run_checks(suite, preset)
    run_scripts(suite, preset)
    if os.geteuid() == 0 and (suite.strict or suite.options.all):
        run_as_nobody(suite, preset)
    if suite.options.all:
        run_ctest(suite, "release", "unit|sim|integration")
        run_scripts(suite, "release")
        build(suite, "tsan")
        run_ctest(suite, "tsan", "unit|sim")
        run_fuzz(suite)


def list_names(suite):
    print("\n".join(name for name in [*checks.CHECKS, *script_tests()] if suite.wants(name)))
    subprocess.run(["ctest", "-N", "--test-dir", build_folder(suite.options.preset)], check=False)


def parse_options():
    parser = argparse.ArgumentParser(prog="./test", description="Builds and runs the tests.")
    parser.add_argument("--all", action="store_true", help="also tsan, long, fuzz, every client")
    parser.add_argument("--preset", default="dev", help="the preset to test (default: dev)")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("filter", nargs="?", default="", help="a regular expression over names")
    return parser.parse_args()


def main():
    os.chdir(ROOT)
    suite = Suite(parse_options())
    if suite.options.list:
        list_names(suite)
        return 0
    run_all(suite)
    if suite.failures:
        print("failed: " + " ".join(suite.failures))
    if not any(suite.counts.values()):
        suite.record("anything", "failed", reason="no test ran")
    skipped = f", {suite.counts['skipped']} skipped" if suite.counts["skipped"] else ""
    print(f"{suite.counts['passed']} passed, {suite.counts['failed']} failed{skipped}", flush=True)
    return 1 if suite.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
