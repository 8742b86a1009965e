"""Just enough of C to check a style: what is comment, what is code, where functions begin and end.

The text is never preprocessed. A brace that opens after a `)` at the outer level begins a function;
directives (with their continued lines) are kept apart from code, so macros are not functions.
"""
import re

TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/|//[^\n]*)"
    r"|(?P<text>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)",
    re.DOTALL | re.MULTILINE)


class Function:
    """A function's name and its lines, from the first of its head to its closing brace."""

    def __init__(self, name, first, last):
        self.name = name
        self.first = first
        self.last = last
        self.line_count = last - first + 1


def blank(text):
    """The same text with everything but line breaks turned into spaces."""
    return re.sub(r"[^\n]", " ", text)


class Source:
    """A C file in parts. All of them keep the line numbers of the text."""

    def __init__(self, text):
        self.text = text
        self.directives = []    # (line, text without comments)
        self.comment_lines = set()
        self.code = TOKEN.sub(self._replace, text)  # no comments, no literals
        self.code_lines = self.code.split("\n")
        # Without directives as well: what the brace counting reads.
        self.plain = self._without_directives()
        self.statements = []    # (possible first lines, last line, text), ended by ';'
        self.functions = []
        self._walk()
        self.comment_line_count = len(self.comment_lines)

    def _replace(self, match):
        kind = match.lastgroup
        content = match.group()
        line = self.text.count("\n", 0, match.start()) + 1
        if kind == "comment":
            self.comment_lines.update(range(line, line + content.count("\n") + 1))
            return blank(content)
        if kind == "text":
            return content[0] + blank(content[1:-1]) + content[-1]
        stripped = re.sub(r"/\*.*?\*/|//[^\n]*", "", content, flags=re.DOTALL)
        joined = re.sub(r"\s+", " ", stripped.replace("\\\n", " ")).strip().replace("# ", "#")
        self.directives.append((line, joined))
        # A comment above a directive's end does not count as its own line; the body stays code.
        return re.sub(r"/\*.*?\*/", lambda m: blank(m.group()),
                      re.sub(r"\"(?:\\.|[^\"\\\n])*\"",
                             lambda m: '"' + blank(m.group()[1:-1]) + '"', content),
                      flags=re.DOTALL)

    def _without_directives(self):
        return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: blank(m.group()), self.code,
                      flags=re.MULTILINE)

    def _walk(self):
        """Splits the outer level into functions and statements by counting braces."""
        depth = 0
        start = None       # where the outer statement began
        in_function = False
        for at, char in enumerate(self.plain):
            if depth == 0 and start is None and not char.isspace():
                start = at
            if char == "{":
                if depth == 0:
                    in_function = self.plain[:at].rstrip().endswith(")")
                depth += 1
            elif char == "}":
                depth -= 1
                if depth == 0 and in_function:
                    self._add_function(start, at)
                    start, in_function = None, False
            elif char == ";" and depth == 0:
                self._add_statement(start, at)
                start = None

    def _line(self, at):
        return self.plain.count("\n", 0, at) + 1

    def _skip_macro_lines(self, start, end):
        """A macro used as a line of its own (`MAKE_ACCESSORS(16, be)`) ends without a semicolon."""
        match = re.match(r"(?:[A-Z_][A-Z0-9_]*\([^;{}]*?\)[ \t]*\n\s*)+", self.plain[start:end])
        return start + match.end() if match else start

    def _add_function(self, start, end):
        start = self._skip_macro_lines(start, end)
        head = self.plain[start:end].split("{", 1)[0]
        names = re.findall(r"([A-Za-z_]\w*)\s*\(", head)
        names = [name for name in names if name != "__attribute__" and not name.isupper()]
        self.functions.append(
            Function(names[0] if names else "?", self._line(start), self._line(end)))

    def _add_statement(self, start, end):
        inner = self._skip_macro_lines(start, end)
        lines = {self._line(start), self._line(inner)}  # The macro may be an attribute of it.
        self.statements.append((lines, self._line(end), self.plain[inner:end]))

    def undocumented_prototypes(self):
        """(name, line) of each prototype without a comment above it or above its group.

        A group is a run of declarations without blank lines between them: two widths of one
        function, or a callback's type and the function that takes it.
        """
        documented_end = 0  # the last line of the documented declaration before this one
        for firsts, last, text in self.statements:
            above = {first - 1 for first in firsts}
            if above & self.comment_lines or documented_end in above:
                documented_end = last
                continue
            name = self._prototype_name(text)
            if name is not None:
                yield name, max(firsts)

    def _prototype_name(self, text):
        match = re.search(r"([A-Za-z_]\w*)\s*\(", self._bare(text))
        others = ("typedef", "static", "_Static_assert", "static_assert")
        if match is None or "=" in text or "{" in text or text.split()[0] in others:
            return None
        return match.group(1)

    @staticmethod
    def _bare(text):
        """A declaration without attributes: `NO_RETURN`, `PRINTF_LIKE(3, 4)`, `__attribute__`."""
        text = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text, flags=re.DOTALL)
        return re.sub(r"\b[A-Z_][A-Z0-9_]*\s*\([^()]*\)", "", text)

    def has_code_after(self, line):
        """Whether anything but comments and blanks follows the line."""
        return any(text.strip() for text in self.code_lines[line:])

    def unbraced_statements(self):
        """The lines of `if`, `for`, `while`, `else` and `do` inside functions without a brace."""
        for match in re.finditer(r"\b(if|for|while|switch|else|do)\b", self.plain):
            at = match.end()
            if match.group(1) not in ("else", "do"):
                at = self._after_parentheses(at)
                if at is None:
                    continue
            rest = self.plain[at:].lstrip()
            if match.group(1) == "else" and re.match(r"if\b", rest):
                continue
            if match.group(1) == "while" and rest.startswith(";") and self._ends_do(match.start()):
                continue
            if not rest.startswith("{"):
                yield self._line(match.start())

    def _ends_do(self, start):
        return self.plain[:start].rstrip().endswith("}")

    def _after_parentheses(self, at):
        """The place after the closing parenthesis of the condition that begins at `at`."""
        depth = 0
        for place in range(at, len(self.plain)):
            char = self.plain[place]
            if char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if depth == 0:
                    return place + 1
            elif depth == 0 and not char.isspace():
                return None
        return None
