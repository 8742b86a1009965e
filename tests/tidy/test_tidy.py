#!/usr/bin/env python3
"""The self-test of tidy.py: each rule has a sample that it must catch, and one it must not."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scan  # noqa: E402
import tidy  # noqa: E402

GOOD_HEADER = """/* What it is. */
#ifndef TWINLOG_CORE_SAMPLE_H
#define TWINLOG_CORE_SAMPLE_H

#include "twinlog/core/base.h"

#define TWICE(x)                    \\
    do {                            \\
        (x) *= 2; \\
    } while (0)

struct sample {
    int (*call)(int value);
};

SAMPLE_ACCESSORS(16, be)
SAMPLE_ACCESSORS(32, be)

/* Starts it. */
NO_RETURN void sample_start(struct sample *sample, int (*call)(int value));

/* Writes one or the other. */
void sample_write_a(struct sample *sample);
PRINTF_LIKE(1, 2)
MUST_USE int sample_write_b(const char *format, ...)
    __attribute__((cold));

/* Calls back once. */
typedef void (*sample_callback)(void);
void sample_notify(struct sample *sample, sample_callback callback);

_Static_assert(sizeof(int) == 4, "as everywhere");

static inline int sample_read(struct sample *sample)
{
    return sample->call(1);
}

#endif
"""

GOOD_SOURCE = """#include "sample.h"

static const char *const texts[] = {"open(", "/* no comment", "{"};

static int sample_read(int c)
{
    if (c == '{') { /* strcpy() is only mentioned */
        return sample.read(c) + sample->write(c);
    } else if (c == '"') {
        do {
            c++;
        } while (c < 5);
    } else {
        while (c < 5) {
            c++;
        }
    }
    return 0;
}

#ifdef SAMPLE
void sample_open(void)
{
}
#endif
"""


def findings_of(path, text):
    with tempfile.TemporaryDirectory() as root:
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(text)
        findings, files = tidy.check(root, tidy.repository_files(root))
        assert len(files) == 1
        return [(line, message) for _, line, message in findings]


class TidyTest(unittest.TestCase):
    def assert_caught(self, path, text, line, words):
        findings = findings_of(path, text)
        self.assertEqual(len(findings), 1, findings)
        self.assertEqual(findings[0][0], line)
        self.assertIn(words, findings[0][1])

    def test_good_samples_pass(self):
        self.assertEqual(findings_of("include/twinlog/core/sample.h", GOOD_HEADER), [])
        self.assertEqual(findings_of("src/log/sample.c", GOOD_SOURCE), [])

    def test_a_long_file(self):
        self.assertEqual(findings_of("src/log/a.c", "int x;\n" * 800), [])
        self.assert_caught("src/log/a.c", "int x;\n" * 801, 1, "801 lines")
        self.assert_caught("bench/a.py", "x = 1\n" * 801, 1, "801 lines")

    def test_a_long_line(self):
        self.assertEqual(findings_of("src/log/a.c", "/*" + "é" * 96 + "*/\n"), [])
        self.assert_caught("src/log/a.c", "int x;\n/*" + "x" * 97 + "*/\n", 2, "101 columns")
        self.assert_caught("run", "#!/usr/bin/env bash\n#" + "x" * 100 + "\n", 2, "101 columns")

    def test_a_long_function(self):
        def source(statements):
            return "static void f(int a,\n    int b)\n{\n" + "    g();\n" * statements + "}\n"
        self.assertEqual(findings_of("src/log/a.c", source(66)), [])
        self.assert_caught("src/log/a.c", source(67), 1, "f has 71 lines")

    def test_a_long_python_function(self):
        self.assertEqual(findings_of("tests/a.py", "def f():\n" + "    g()\n" * 69), [])
        self.assert_caught("tests/a.py", "x = 1\ndef f():\n" + "    g()\n" * 70, 2, "71 lines")

    def test_a_prototype_without_a_comment(self):
        bare = GOOD_HEADER.replace("/* Starts it. */\n", "")
        line = bare.split("\n").index("NO_RETURN void sample_start(struct sample *sample, "
                                      "int (*call)(int value));") + 1
        path = "include/twinlog/core/sample.h"
        self.assert_caught(path, bare, line, "sample_start has no comment")
        apart = GOOD_HEADER.replace("/* Starts it. */\n", "/* Starts it. */\n\n")
        self.assert_caught(path, apart, line + 2, "sample_start has no comment")
        second = GOOD_HEADER.replace("sample_write_a(struct sample *sample);\n",
                                     "sample_write_a(struct sample *sample);\n\n")
        self.assertIn("sample_write_b", findings_of(path, second)[0][1])

    def test_every_banned_call_is_caught_with_its_replacement(self):
        for call, replacement in tidy.BANNED_EVERYWHERE.items():
            source = "static void f(void)\n{\n    x = %s(a);\n}\n" % call
            for path in ("src/io/a.c", "bench/a.c", "tests/unit/core/a.c", "src/main.c"):
                self.assert_caught(path, source, 3, replacement)

    def test_the_seam_holds_where_the_simulator_runs(self):
        for call, replacement in tidy.BANNED_BEHIND_THE_SEAM.items():
            source = "static void f(void)\n{\n    x = %s (a);\n}\n" % call
            for folder in tidy.SEAM_FOLDERS:
                self.assert_caught(folder + "a.c", source, 3, replacement)
            for path in ("src/io/a.c", "bench/a.c", "tests/sim/a.c", "src/core/trace.c"):
                self.assertEqual(findings_of(path, source), [])

    def test_a_banned_call_in_a_macro(self):
        self.assert_caught("src/log/a.c", "#define NOW() \\\n    time(NULL)\n", 2, "time()")

    def test_an_unfinished_mark(self):
        for word in tidy.UNFINISHED:
            self.assert_caught("src/log/a.c", f"int x;\n/* {word}: later */\n", 2, word)
            self.assert_caught("docs/a.md", f"{word}(me): later\n", 1, word)
            self.assertEqual(findings_of("docs/a.md", f"{word}ING mktemp {word * 2}\n"), [])

    def test_a_header_guard(self):
        path = "src/log/sample.h"
        self.assert_caught(path, "struct x;\n", 1, "no header guard")
        self.assert_caught(path, "#pragma once\nstruct x;\n", 1, "no header guard")
        named = "#ifndef TWINLOG_LOG_{0}_H\n#define TWINLOG_LOG_{1}_H\n{2}#endif\n{3}"
        self.assertEqual(findings_of(path, named.format("SAMPLE", "SAMPLE", "", "")), [])
        self.assert_caught(path, named.format("SAMPLE", "OTHER", "", ""), 1, "no header guard")
        self.assert_caught(path, named.format("OTHER", "OTHER", "", ""), 1, "named after the file")
        self.assert_caught(path, named.format("SAMPLE", "SAMPLE", "", "int x;\n"), 3, "end with")

    def test_a_condition_inside_a_function(self):
        for directive in ("#ifdef X", "#ifndef X", "#if X", "#if defined(X)"):
            source = f"static void f(void)\n{{\n{directive}\n    g();\n#endif\n}}\n"
            self.assert_caught("src/log/a.c", source, 3, "inside f")

    def test_a_branch_without_braces(self):
        for line in ("if (a(b)) c();", "for (;;) c();", "while (a) c();", "while (a);",
                     "if (a) {\n    }\n    else c();", "do c(); while (a);"):
            source = "static void f(void)\n{\n    %s\n}\n" % line
            findings = findings_of("src/log/a.c", source)
            self.assertTrue(findings, line)
            self.assertTrue(all("braces" in message for _, message in findings), findings)

    def test_the_scanner_finds_functions_and_their_lines(self):
        source = scan.Source(GOOD_SOURCE)
        found = [(f.name, f.first, f.last) for f in source.functions]
        self.assertEqual(found, [("sample_read", 5, 19), ("sample_open", 22, 24)])

    def test_an_empty_run_is_a_failure(self):
        with tempfile.TemporaryDirectory() as root:
            sys.argv = ["tidy.py", "--root", root]
            self.assertEqual(tidy.main(), 1)


if __name__ == "__main__":
    unittest.main()
