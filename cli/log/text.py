"""Decoded records as lines for people."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ...log.batch import Record
from .decoding import UNDECODABLE, Decoded, content_of
from .sources import Source

__all__ = ["key_text", "line_of", "say", "time_text"]


def line_of(record: Decoded) -> str:
    parts = [record.partition, str(record.offset), time_text(record.timestamp), record.kind]
    parts += [_text(record.key), "=", "deleted" if record.value is None else _text(record.value)]
    if record.headers:
        parts.append(f"headers={_json(dict(record.headers))}")
    if record.producer_id >= 0:
        kind = "transaction of" if record.transactional else "by"
        parts.append(f"({kind} producer {record.producer_id}/{record.producer_epoch})")
    if record.error is not None:
        parts.append(f"({record.error})")
    return " ".join(parts) + "\n"


def say(text: str) -> None:
    """Word of the log itself, beside what a command prints."""
    sys.stdout.flush()
    print(f"# {text}", file=sys.stderr)


def key_text(source: Source, record: Record) -> str:
    """What a record is about, whatever its value says."""
    content = content_of(source, record, is_control=False)
    if content.kind == UNDECODABLE:
        content = content_of(source, record._replace(value=None), is_control=False)
    return f"{content.kind} {_text(content.key)}"


def time_text(timestamp_ms: int) -> str:
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def _text(content: Any) -> str:
    """Fields as `name=value`; what is not plain is JSON."""
    if isinstance(content, Mapping):
        return " ".join(f"{name}={_plain(value)}" for name, value in content.items())
    return _json(content)


def _plain(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "'):
        return value
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
