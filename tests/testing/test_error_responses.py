"""Error responses for every version of every API, in bytes that kio decodes."""

from typing import Any

import pytest
from kohort.protocol.apis import Api
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import request_module, response_decoder, response_encoder
from kohort.testing.faults.actions import error_response, has_error_code
from kohort.testing.recorded_request import ERROR_FIELDS
from support.kio_messages import EVERY_VERSION, largest, version_id

ERRORS = (ErrorCode.not_coordinator, ErrorCode.unknown_topic_or_partition)


def errors_in(message: Any) -> set[ErrorCode]:
    if isinstance(message, tuple):
        return {code for each in message for code in errors_in(each)}
    found = set()
    for name in getattr(message, "__dataclass_fields__", ()):
        value = getattr(message, name)
        found |= {ErrorCode(value)} if name in ERROR_FIELDS else errors_in(value)
    return found - {ErrorCode.none}


# The error response of Metadata is made from its response (fault_actions.answer).
WITHOUT_METADATA = [each for each in EVERY_VERSION if each[0].name != "Metadata"]


@pytest.mark.parametrize(("api", "version"), WITHOUT_METADATA, ids=version_id)
def test_an_error_response_can_be_decoded(api: Api, version: int) -> None:
    request = largest(getattr(request_module(api.key, version), f"{api.name}Request"))
    for error in ERRORS if has_error_code(api.key, version) else ():
        response = error_response(api.key, version, request, error)
        frame = response_encoder(api.key, version)(response, 7)
        assert errors_in(response_decoder(api.key, version)(frame)) == {error}


def test_each_response_has_an_error_code() -> None:
    assert [each for each in EVERY_VERSION if not has_error_code(each[0].key, each[1])] == []
