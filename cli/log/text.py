"""Decoded records as lines for people."""

import re
import sys
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from json import JSONEncoder
from typing import Any, Final

from ...log.records import Record
from .decoding import UNDECODABLE, Decoded, content_of
from .sources import Source

__all__ = ["json_text", "key_text", "line_of", "say", "time_text"]

# What needs no quotes in `name=value`.
PLAIN: Final = re.compile(r'[^\s"]+')


def _base64(value: Any) -> str:
    """Bytes inside of decoded content, as in Kafka's JSON."""
    assert isinstance(value, bytes), value
    return b64encode(value).decode()


json_text: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_base64).encode


def line_of(record: Decoded) -> str:
    parts = [record.partition, str(record.offset), time_text(record.timestamp), record.kind]
    parts += [_text(record.key), "=", "deleted" if record.value is None else _text(record.value)]
    if record.headers:
        parts.append(f"headers={json_text(dict(record.headers))}")
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
    second = _second_text(timestamp_ms // 1000)
    return str(timestamp_ms) if second is None else f"{second}.{timestamp_ms % 1000:03d}Z"


@lru_cache(1024)  # the records of a log are mostly in the order of their times
def _second_text(seconds: int) -> str | None:
    """None for what no calendar has."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return None


def _text(content: Any) -> str:
    """Fields as `name=value`; what is not plain is JSON."""
    if isinstance(content, Mapping):
        return " ".join(f"{name}={_plain(value)}" for name, value in content.items())
    return json_text(content)


def _plain(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.isprintable():
        return value
    return json_text(value)
