"""Every API in every version can be refused, in bytes that kio reads."""

from typing import Any

import pytest
from kohort.protocol.apis import Api
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import request_module, response_decoder, response_encoder
from kohort.testing.refusals import can_refuse, refusal
from support.kio_messages import EVERY_VERSION, largest, version_id

ERRORS = (ErrorCode.not_coordinator, ErrorCode.unknown_topic_or_partition)


def errors_in(message: Any) -> set[ErrorCode]:
    if isinstance(message, tuple):
        return {code for each in message for code in errors_in(each)}
    found = set()
    for name in getattr(message, "__dataclass_fields__", ()):
        value = getattr(message, name)
        found |= {ErrorCode(value)} if name == "error_code" else errors_in(value)
    return found - {ErrorCode.none}


# A Metadata answer without brokers would say that there is no cluster: deeds.py does it otherwise.
REFUSED = [each for each in EVERY_VERSION if each[0].name != "Metadata"]


@pytest.mark.parametrize(("api", "version"), REFUSED, ids=version_id)
def test_a_refusal_is_an_answer_of_its_version(api: Api, version: int) -> None:
    request = largest(getattr(request_module(api.key, version), f"{api.name}Request"))
    for error in ERRORS if can_refuse(api.key, version) else ():
        frame = response_encoder(api.key, version)(refusal(api.key, version, request, error), 7)
        read = response_decoder(api.key, version)(frame)
        assert errors_in(read) == {error}


def test_each_answer_has_room_for_an_error() -> None:
    assert [each for each in EVERY_VERSION if not can_refuse(each[0].key, each[1])] == []
