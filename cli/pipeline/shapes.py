"""Answers for scripts, one shape for all questions: a row has the same fields in JSON and in CSV.

Times are ISO 8601 in UTC. JSON has a row a line, in a list; in CSV what is a list is JSON, and what
is not known is empty.
"""

import csv
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

__all__ = ["show_rows"]


def show_rows(fields: Iterable[str], rows: Iterable[tuple[Any, ...]], shape: str) -> None:
    """`shape`: json or csv."""
    names = list(fields)
    if shape == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(value) for value in row] for row in rows)
        return
    sys.stdout.write("[")
    before = "\n"
    for row in rows:
        said = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        sys.stdout.write(before + _json(said))
        before = ",\n"
    sys.stdout.write("\n]\n")


# What most values are: of half a million partitions there are ten million.
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
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
