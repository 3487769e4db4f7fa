"""Finds the first step in which two transcripts differ, and the fields of its response that
differ."""

import json
from collections.abc import Iterator
from typing import Any, Final

from .transcript import OLDER, Line, Transcript

FIELDS_MAX: Final = 8  # fields that are shown; further differences mostly have the same cause
LENGTH_MAX: Final = 160  # characters of a value that are shown
ABSENT: Final = "(absent)"


def first_difference(kafka: Transcript, other: Transcript, name: str = "broker") -> str | None:
    """Return the first line that differs, with the steps before it. `name`: the other broker's
    name."""
    for number, (a, b) in enumerate(map(_comparable, kafka, other)):
        if a != b:
            steps = "".join(f"       {line['step']}\n" for line in kafka[: number + 1])
            fields = list(_fields("", _without_step(a, b), _without_step(b, a)))
            lines = "".join(
                f"         {path or 'response'}: Kafka {x}, {name} {y}\n"
                for path, x, y in fields[:FIELDS_MAX]
            )
            more = len(fields) - FIELDS_MAX
            return f"\n{steps}{lines}" + (f"         and {more} more\n" if more > 0 else "")
    if len(kafka) != len(other):
        return f"\nKafka's transcript has {len(kafka)} lines, {name}'s has {len(other)}\n"
    return None


def _comparable(kafka: Line, other: Line) -> tuple[Line, Line]:
    """Return the two lines without the mark OLDER. If the other line has the mark, also omit the
    fields of Kafka's responses that the other's responses lack."""
    if OLDER not in other:
        return kafka, other
    other = {key: value for key, value in other.items() if key != OLDER}
    kafka = {**kafka, "response": _shared(kafka["response"], other["response"])}
    if "delayed" in kafka:
        delayed = other.get("delayed", {})
        kafka["delayed"] = {
            step: _shared(response, delayed.get(step, response))
            for step, response in kafka["delayed"].items()
        }
    return kafka, other


def _shared(kafka: Any, other: Any) -> Any:
    if isinstance(kafka, dict) and isinstance(other, dict):
        return {key: _shared(value, other[key]) for key, value in kafka.items() if key in other}
    if isinstance(kafka, list) and isinstance(other, list) and len(kafka) == len(other):
        return [_shared(a, b) for a, b in zip(kafka, other, strict=True)]
    return kafka


def _without_step(line: Line, other: Line) -> Any:
    """Return the response of a line; if other parts of the line differ too, all differing parts."""
    differing = [key for key in {**line, **other} if line.get(key) != other.get(key)]
    if differing == ["response"]:
        return line["response"]
    return {key: line[key] for key in differing if key in line}


def _fields(path: str, kafka: Any, other: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each field that differs, and both values."""
    if isinstance(kafka, dict) and isinstance(other, dict):
        names = {**kafka, **other}
        both = kafka.keys() & other.keys()
        if "error_code" in both and kafka["error_code"] != other["error_code"]:
            # The response with an error may have lost its other fields (without_details), so only
            # common fields are shown.
            names = {key: None for key in names if key in both}
        for key in names:
            inner = f"{path}.{key}" if path else key
            yield from _fields(inner, kafka.get(key, ABSENT), other.get(key, ABSENT))
    elif isinstance(kafka, list) and isinstance(other, list) and len(kafka) == len(other):
        for index, (a, b) in enumerate(zip(kafka, other, strict=True)):
            yield from _fields(f"{path}[{index}]", a, b)
    elif kafka != other:
        yield (path, *_cut(_value(kafka), _value(other)))


def _value(value: Any) -> str:
    is_plain = isinstance(value, str) and value != "" and value.isprintable()
    return value if is_plain else json.dumps(value)


def _cut(kafka: str, other: str) -> tuple[str, str]:
    """Return two values; if one is long, parts of both, starting just before they differ."""
    if max(len(kafka), len(other)) <= LENGTH_MAX:
        return kafka, other
    shorter = min(len(kafka), len(other))
    equal = next((i for i in range(shorter) if kafka[i] != other[i]), shorter)
    start = max(0, equal - LENGTH_MAX // 4)
    return _part(kafka, start), _part(other, start)


def _part(text: str, start: int) -> str:
    end = start + LENGTH_MAX
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")
