"""Two of Java's formats: properties files, and JAAS configurations inside them.

Error messages never contain values, which may be passwords.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["parse_jaas", "parse_properties", "quoted"]

# Java splits lines only at these characters, and treats only these as white space, unlike Python.
LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
WHITE_SPACE: Final = " \t\f"
SEPARATOR: Final = re.compile(
    rf"(?<!\\)[{WHITE_SPACE}]*[=:][{WHITE_SPACE}]*|(?<!\\)[{WHITE_SPACE}]+"
)
ESCAPES: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# A JAAS configuration: login module, flag, options, semicolon (upstream: JaasConfig).
QUOTED: Final = r"\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'"
OPTION: Final = rf"\s++([\w.$-]++)\s*+=\s*+({QUOTED}|[\w.$-]++)"
OPTIONS: Final = re.compile(OPTION)
JAAS: Final = re.compile(
    r"\s*+(?P<module>[\w.$-]++)\s++(?i:required|requisite|sufficient|optional)"
    rf"(?P<options>(?:{OPTION})*+)\s*+;\s*+"
)
# Escapes in quoted values (upstream: java.io.StreamTokenizer).
QUOTED_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
QUOTED_ESCAPES: Final[Mapping[str, str]] = {**ESCAPES, "a": "\a", "b": "\b", "v": "\v"}


def parse_properties(text: str) -> Iterator[tuple[str, str]]:
    """Yield each key and value. `#` and `!` begin comments, and `\\` at the end continues a line.
    Raises ValueError."""
    for line in _logical_lines(text):
        parts = SEPARATOR.split(line, maxsplit=1)
        value = parts[1] if len(parts) == 2 else ""
        try:
            yield _unescape(parts[0]), _unescape(value)
        except ValueError as error:
            raise ValueError(f"{error} in {parts[0]!r}") from error


def _logical_lines(text: str) -> Iterator[str]:
    logical = ""
    for raw in LINE_BREAK.split(text):
        line = raw.lstrip(WHITE_SPACE)
        if not logical and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            logical += line[:-1]
            continue
        yield logical + line
        logical = ""
    if logical:
        yield logical


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ValueError("malformed \\u escape")  # the message of java.util.Properties
        return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPES.get(code, code)

    unescaped = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
    # Java writes characters beyond U+FFFF as two escapes.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the login module of a JAAS configuration, without its package, and the options. Raises
    ValueError."""
    match = JAAS.fullmatch(text)
    if match is None:
        raise ValueError('expected MODULE required NAME="VALUE" ...;')
    options = {name: _unquoted(value) for name, value in OPTIONS.findall(match["options"])}
    return match["module"].rpartition(".")[2], options


def quoted(value: str) -> str:
    """Return the value of an option in double quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8)) if code[0] in "01234567" else QUOTED_ESCAPES.get(code, code)

    return QUOTED_ESCAPE.sub(character, text[1:-1]) if text[0] in "\"'" else text
