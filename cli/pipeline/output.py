"""Paragraphs for terminals, and rows as JSON and CSV for scripts.

Times are ISO 8601 in UTC. JSON is a list with one row per line. In CSV, lists are JSON and unknown
values are empty.
"""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ...pipeline.diagnosis.rows import TIMES, fields
from ...printable import printable, printable_json
from .. import output

# Longer lines are hard to read. In shorter lines, the indentation leaves too little room for text.
WIDTH_MAX, WIDTH_MIN = 110, 60


def paragraph(text: str, prefix: str = "") -> str:
    """Wrap text to the width of the terminal. All lines are indented by the length of `prefix`."""
    return textwrap.fill(
        printable(text),
        min(max(shutil.get_terminal_size((80, 24)).columns, WIDTH_MIN), WIDTH_MAX),
        initial_indent=prefix,
        subsequent_indent=" " * len(prefix),
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_rows(names: Sequence[str], rows: Iterable[Mapping[str, Any]], format_: str) -> None:
    """Print the fields with these names, as `format_` json or csv."""
    if format_ == "csv":
        cells = ([_cell(_plain(name, row[name])) for name in names] for row in rows)
        output.write_csv(list(names), cells)
        return
    sys.stdout.write("[")
    separator = "\n"
    for row in rows:
        sys.stdout.write(separator + _json({name: _plain(name, row[name]) for name in names}))
        separator = ",\n"
    sys.stdout.write("\n]\n")


def _cell(plain: Any) -> Any:
    return _json(plain) if isinstance(plain, list | dict | bool) else plain


def _json(value: Any) -> str:
    return printable_json(json.dumps(value, ensure_ascii=False))


def _plain(name: str, value: Any) -> Any:
    if name in TIMES and value is not None:
        seconds = datetime.fromtimestamp(value // 1000, UTC)
        return f"{seconds:%Y-%m-%dT%H:%M:%S}.{value % 1000:03}Z"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {each: _plain(each, getattr(value, each)) for each in fields(type(value))}
    if isinstance(value, list | tuple):
        return [_plain("", each) for each in value]
    return value
