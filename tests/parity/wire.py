"""Responses with bytes as text, for the client of tests/testing."""

from typing import Any

from kohort.protocol.apis import APIS
from support import wire
from support.wire import request_of

__all__ = ["BY_NAME", "plain", "request_of"]

BY_NAME = {api.name: api for api in APIS}


def plain(message: Any) -> Any:
    return _text(wire.plain(message))


def _text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _text(item) for key, item in value.items() if key != "throttle_time"}
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value
