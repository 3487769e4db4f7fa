"""Where the answer goes: Kafka's tables as they come, or all rows at the end as JSON or CSV.

Errors are lines of the answer in Kafka's tables, and the exit code stays 0, as with Kafka's tool.
JSON and CSV are ours: there an error goes to standard error, and the exit code is 1.
"""

import csv
import json
import sys
from collections.abc import Iterable
from typing import Any, Final

FORMATS: Final = ("table", "json", "csv")


class Output:
    def __init__(self, shape: str) -> None:
        self._shape = shape
        self._columns: tuple[str, ...] = ()
        self._rows: list[tuple[Any, ...]] = []
        self._failed = False

    def begin(self, row_type: Any) -> None:
        """All rows will be of this type."""
        self._columns = row_type._fields

    def show(self, rows: Iterable[tuple[Any, ...]], table: str) -> None:
        """The same twice: as rows, and as Kafka prints them."""
        if self._shape == "table":
            sys.stdout.write(table)
        else:
            self._rows.extend(rows)

    def notice(self, text: str) -> None:
        """What a person should know; the answer is complete without it."""
        sys.stdout.flush()
        print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """What Kafka prints among its tables."""
        print(text, file=sys.stdout if self._shape == "table" else sys.stderr)

    def error(self, text: str) -> None:
        self._failed = True
        self.warning(f"\nError: {text}" if self._shape == "table" else f"Error: {text}")

    def end(self) -> None:
        """The action has come to its end: its rows are complete."""
        if self._shape == "json":
            rows = [dict(zip(self._columns, row, strict=True)) for row in self._rows]
            print(json.dumps(rows, indent=2, ensure_ascii=False))
        elif self._shape == "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(self._columns)
            writer.writerows(self._rows)

    def exit_code(self) -> int:
        return 1 if self._failed and self._shape != "table" else 0
