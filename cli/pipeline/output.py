"""Paragraphs and tables as wide as the terminal; JSON and CSV with the same fields for scripts.

Times are ISO 8601 in UTC. JSON has one row per line, in a list; in CSV lists are JSON, and unknown
values are empty.
"""

import json
import shutil
import sys
import textwrap
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from ...pipeline.formatting import printable
from .. import output

# Longer lines are hard to read; shorter ones leave no room beside the columns.
WIDTH_MAX, WIDTH_MIN = 110, 60


def _width() -> int:
    return min(max(shutil.get_terminal_size((80, 24)).columns, WIDTH_MIN), WIDTH_MAX)


def paragraph(text: str, prefix: str = "") -> str:
    """`prefix`: of the first line; the others are indented by its length."""
    return "\n".join(
        textwrap.wrap(
            printable(text),
            _width(),
            initial_indent=prefix,
            subsequent_indent=" " * len(prefix),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def bullets(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"\n{title}"
        yield from (paragraph(item, "  - ") for item in items)


def table(lines: Sequence[Sequence[str]], right: Container[str]) -> Iterator[str]:
    """The first line is the header. `right`: names of the right-aligned columns."""
    return output.table([[printable(cell) for cell in line] for line in lines], right)


def print_rows(fields: Iterable[str], rows: Iterable[tuple[Any, ...]], format_: str) -> None:
    """`format_`: json or csv."""
    names = list(fields)
    if format_ == "csv":
        output.write_csv(names, ([_cell(value) for value in row] for row in rows))
        return
    sys.stdout.write("[")
    separator = "\n"
    for row in rows:
        values = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        sys.stdout.write(separator + _json(values))
        separator = ",\n"
    sys.stdout.write("\n]\n")


# The types of most values: half a million partitions have ten million values.
_SIMPLE = frozenset((str, int, float, bool))


def _cell(value: Any) -> Any:
    plain = _plain(value)
    return _json(plain) if isinstance(plain, list | dict | bool) else plain


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or type(value) in _SIMPLE:
        return value
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
