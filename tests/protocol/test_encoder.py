"""Encoding of requests and responses, and decoding of responses, in every version that is served,
with kio as the oracle."""

from dataclasses import replace
from datetime import timedelta
from itertools import product
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kohort.conformance.wire import kio_bytes, smallest
from kohort.protocol.apis import API_VERSIONS, Api
from kohort.protocol.encoder import NAMES_MAX, BodyEncoder, compile_body_encoder
from kohort.protocol.errors import EncodeError, ErrorCode
from kohort.protocol.messages import (
    kio_schema,
    request_encoder,
    request_module,
    response_buffers_encoder,
    response_decoder,
    response_encoder,
    response_module,
    with_throttle_time,
)
from support.kio_messages import (
    EVERY_VERSION,
    largest,
    loose,
    messages,
    version_id,
)


def response_class(api: Api, version: int) -> Any:
    return getattr(response_module(api.key, version), f"{api.name}Response")


def body_encoder(kio_class: Any) -> BodyEncoder:
    return compile_body_encoder(kio_schema(kio_class), EncodeError)


def kio_frame(message: Any, correlation_id: int) -> bytes:
    header = pack(">i", correlation_id)
    if message.__header_schema__.__flexible__:
        header += b"\0"
    body = kio_bytes(message)
    return pack(">i", len(header) + len(body)) + header + body


every_version = pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=version_id)


@every_version
def test_response_frames_are_those_of_kio_and_are_decoded(api: Api, version: int) -> None:
    encode, decode = response_encoder(api.key, version), response_decoder(api.key, version)
    for make in (smallest, largest):
        message = make(response_class(api, version))
        frame = kio_frame(message, -7)
        assert encode(message, -7) == frame
        assert encode(loose(message), -7) == frame  # attributes of objects of other classes
        assert decode(frame) == message
        assert decode(frame[4:], 4) == message


# Fewer examples than elsewhere, because each runs for about 190 schemas.
@every_version
@settings(max_examples=settings.default.max_examples // 8)
@given(data=st.data(), correlation_id=st.integers(-(2**31), 2**31 - 1))
def test_any_response_frame_is_that_of_kio_and_is_decoded(
    api: Api, version: int, data: st.DataObject, correlation_id: int
) -> None:
    message = data.draw(messages(response_class(api, version)))
    frame = response_encoder(api.key, version)(message, correlation_id)
    assert frame == kio_frame(message, correlation_id)
    assert response_decoder(api.key, version)(frame) == message


def test_response_header_versions_are_those_of_kio() -> None:
    for api, version in EVERY_VERSION:
        flexible = response_class(api, version).__header_schema__.__flexible__
        assert flexible == (version >= api.flexible_from and api.key != API_VERSIONS)


@pytest.mark.parametrize("version", range(1, 11))
def test_message_of_a_newer_version_is_encoded_in_older_ones(version: int) -> None:
    newest = response_module(9, 7)
    partition = newest.OffsetFetchResponsePartition(
        partition_index=3,
        committed_offset=9,
        committed_leader_epoch=1,
        metadata=None,
        error_code=ErrorCode.none,
    )
    topic = newest.OffsetFetchResponseTopic(name="t", partitions=(partition,))
    message = newest.OffsetFetchResponse(
        throttle_time=timedelta(0), topics=(topic,), error_code=ErrorCode.none
    )
    if version >= 8:  # since this version, responses are per group
        with pytest.raises(EncodeError, match="groups is missing"):
            response_encoder(9, version)(message, 1)
    else:
        assert b"t" in response_encoder(9, version)(message, 1)


def test_missing_attribute_is_encoded_as_the_default_of_the_schema() -> None:
    module = response_module(1, 12)
    partition = SimpleNamespace(
        partition_index=0,
        error_code=0,
        high_watermark=5,
        aborted_transactions=None,
        records=b"r",
    )
    message = SimpleNamespace(
        throttle_time=timedelta(0),
        error_code=0,
        responses=[SimpleNamespace(topic="t", partitions=[partition])],
    )
    expected = module.FetchResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        responses=(
            module.FetchableTopicResponse(
                topic="t",
                partitions=(
                    module.PartitionData(**dict(vars(partition), error_code=ErrorCode(0))),
                ),
            ),
        ),
    )
    assert response_encoder(1, 12)(message, 1) == kio_frame(expected, 1)


def test_tagged_structure_of_another_class_with_default_values_is_omitted() -> None:
    entity = response_module(1, 12).PartitionData
    message = smallest(entity)
    default = SimpleNamespace(epoch=-1, end_offset=-1)
    other = SimpleNamespace(epoch=4, end_offset=-1)
    values = vars(loose(message))
    encode = body_encoder(entity)
    expected = encode(message)
    assert encode(SimpleNamespace(**dict(values, diverging_epoch=default))) == expected
    assert len(encode(SimpleNamespace(**dict(values, diverging_epoch=other)))) > len(expected)


def test_records_may_be_any_bytes_like_object() -> None:
    entity = response_module(1, 4).PartitionData
    values = vars(loose(smallest(entity)))
    encode = body_encoder(entity)
    expected = encode(SimpleNamespace(**dict(values, records=b"abc")))
    for records in (bytearray(b"abc"), memoryview(b"abc")):
        assert encode(SimpleNamespace(**dict(values, records=records))) == expected


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("make", [smallest, largest])
def test_buffers_of_a_frame_are_those_of_kio_joined(version: int, make: Any) -> None:
    message = make(response_module(1, version).FetchResponse)
    buffers = response_buffers_encoder(1, version)(message, -7)
    assert b"".join(buffers) == kio_frame(message, -7)


@every_version
def test_request_frames_are_those_of_kio(api: Api, version: int) -> None:
    for make, client_id in product((smallest, largest), (None, "größer")):
        message = make(getattr(request_module(api.key, version), f"{api.name}Request"))
        header = message.__header_schema__(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=-7,
            client_id=client_id,
        )
        payload = kio_bytes(header) + kio_bytes(message)
        frame = request_encoder(api.key, version)(message, -7, client_id)
        assert frame == pack(">i", len(payload)) + payload


def commit_response(**changes: Any) -> Any:
    partition = SimpleNamespace(partition_index=0, error_code=0)
    topic = SimpleNamespace(name=changes.pop("name", "t"), partitions=[partition])
    for name in [name for name in changes if hasattr(partition, name)]:
        setattr(partition, name, changes.pop(name))
    return SimpleNamespace(**{"throttle_time": timedelta(0), "topics": [topic], **changes})


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (commit_response(name=None), r"topics\[0\].name is None"),
        (commit_response(name=b"t"), r"topics\[0\].name is bytes, not str"),
        (commit_response(name="x" * 32_768), r"topics\[0\].name has 32768 bytes"),
        (
            commit_response(name="\ud800"),
            r"topics\[0\].name contains a character that UTF-8 cannot",
        ),
        (commit_response(topics=None), "topics is None"),
        (commit_response(topics=7), "topics is int, not a sequence"),
        (commit_response(error_code=40_000), r"topics\[0\].partitions\[0\].error_code is 40000"),
        (commit_response(partition_index="0"), r"partition_index is '0', not of the type int32"),
        (commit_response(throttle_time=5), "throttle_time is 5, not a timedelta"),
        (SimpleNamespace(throttle_time=timedelta(0)), "topics is missing"),
    ],
)
def test_value_that_cannot_be_encoded_is_named_by_its_path(
    version: int, message: Any, problem: str
) -> None:
    with pytest.raises(EncodeError, match=f"OffsetCommitResponse v{version} .*{problem}"):
        response_encoder(8, version)(message, 1)


def test_values_that_are_no_numbers_are_named_by_their_paths() -> None:
    def partition(**changes: Any) -> SimpleNamespace:
        fields = dict.fromkeys(("partition_index", "high_watermark", "last_stable_offset"), 0)
        fields |= {"log_start_offset": 0, "error_code": 0, "preferred_read_replica": -1}
        return SimpleNamespace(
            **{**fields, "aborted_transactions": None, "records": b"", **changes}
        )

    def encode(topic_id: Any, *partitions: SimpleNamespace) -> None:
        topic = SimpleNamespace(topic_id=topic_id, partitions=partitions)
        message = SimpleNamespace(error_code=0, session_id=0, responses=[topic])
        response_encoder(1, 13)(message, 1)

    with pytest.raises(EncodeError, match=r"partitions\[1\].records is str, not bytes"):
        encode(None, partition(records=b"batch"), partition(records="text"))
    with pytest.raises(EncodeError, match=r"FetchResponse v13 cannot be encoded: .*bytes"):
        encode(7, partition())


@pytest.mark.parametrize("version", [0, 1, 4])
def test_the_throttle_time_of_encoded_frames_can_be_set(version: int) -> None:
    def response(throttle_ms: int) -> Any:
        throttled = {"throttle_time": timedelta(milliseconds=throttle_ms)} if version else {}
        return SimpleNamespace(error_code=27, **throttled)

    heartbeat = 12

    def frames(throttle_ms: int) -> bytes:
        encode = response_encoder(heartbeat, version)
        return b"".join(encode(response(throttle_ms), number) for number in range(3))

    assert with_throttle_time(heartbeat, version, frames(0), 1234) == frames(1234)


def test_topic_names_beyond_the_cache_are_encoded() -> None:
    encode = response_encoder(8, 8)
    for number in range(NAMES_MAX + 10):
        name = f"topic-{number}"
        assert name.encode() in encode(commit_response(name=name), 1)


@pytest.mark.parametrize("value", ["string", "numbers"])
def test_a_response_with_large_values_of_few_items_is_rejected_early(value: str) -> None:
    """Otherwise each value would take memory before the size of the response is known."""
    module = response_module(69, 1)
    entry, member = smallest(module.TopicPartitions), smallest(module.Member)
    if value == "string":
        member = replace(member, client_id="x" * 30_000)
    else:
        entry = replace(entry, partitions=range(10_000))
        member = replace(member, assignment=module.Assignment(topic_partitions=(entry,)))
    group = replace(smallest(module.DescribedGroup), members=(member,))
    response = module.ConsumerGroupDescribeResponse(throttle_time=timedelta(0), groups=(group,))
    response_encoder(69, 1)(response, 7)
    with pytest.raises(EncodeError, match="items: request less data at a time"):
        response_encoder(69, 1)(replace(response, groups=(group,) * 6_000), 7)
