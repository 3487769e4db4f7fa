"""A request as bytes and bytes as its answer, by kio alone: none of our own encoding takes part, so
a mistake there cannot hide."""

import io
from typing import Any

from kio.serial import entity_reader, entity_writer


def framed(request: Any, *, correlation_id: int, client_id: str | None) -> bytes:
    """The whole frame of kio's `request`, its size in front."""
    schema = request.__header_schema__
    header = {
        "request_api_key": request.__api_key__,
        "request_api_version": request.__version__,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    buffer = io.BytesIO()
    # The oldest header has no client id.
    known = schema.__dataclass_fields__
    entity_writer(schema)(
        buffer, schema(**{name: value for name, value in header.items() if name in known})
    )
    entity_writer(type(request))(buffer, request)
    return buffer.tell().to_bytes(4, "big") + buffer.getvalue()


def answer_in(frame: bytes, response_type: Any) -> tuple[int, Any]:
    """The correlation id and kio's message of a frame without its size; there is nothing else."""
    header, start = entity_reader(response_type.__header_schema__)(frame, 0)
    answer, size = entity_reader(response_type)(frame, start)
    assert start + size == len(frame)
    return header.correlation_id, answer
