"""Compiled writers against kio's own: the same bytes for every API and version that is served."""

from datetime import timedelta
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio_messages import EVERY_VERSION, kio_bytes, largest, loose, messages, smallest, version_id
from kohort.protocol.apis import API_VERSIONS, Api
from kohort.protocol.errors import EncodeError, ErrorCode
from kohort.protocol.messages import response_module, response_pieces, response_writer
from kohort.protocol.writers import NAMES_MAX, body_writer


def response_class(api: Api, version: int) -> Any:
    return getattr(response_module(api.key, version), f"{api.name}Response")


def kio_frame(message: Any, correlation_id: int) -> bytes:
    header = pack(">i", correlation_id)
    if message.__header_schema__.__flexible__:
        header += b"\0"
    body = kio_bytes(message)
    return pack(">i", len(header) + len(body)) + header + body


every_version = pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=version_id)


@every_version
@pytest.mark.parametrize("make", [smallest, largest])
def test_a_frame_is_byte_for_byte_what_kio_writes(api: Api, version: int, make: Any) -> None:
    message = make(response_class(api, version))
    assert response_writer(api.key, version)(message, -7) == kio_frame(message, -7)


@every_version
def test_any_object_with_the_right_attributes_will_do(api: Api, version: int) -> None:
    message = largest(response_class(api, version))
    assert response_writer(api.key, version)(loose(message), 1) == kio_frame(message, 1)


# Fewer examples than elsewhere, because each runs for some 190 schemas.
@every_version
@settings(max_examples=settings.default.max_examples // 8)
@given(data=st.data(), correlation_id=st.integers(-(2**31), 2**31 - 1))
def test_no_message_is_written_otherwise_than_by_kio(
    api: Api, version: int, data: st.DataObject, correlation_id: int
) -> None:
    message = data.draw(messages(response_class(api, version)))
    frame = response_writer(api.key, version)(message, correlation_id)
    assert frame == kio_frame(message, correlation_id)


@every_version
def test_the_response_header_is_the_one_that_kio_names(api: Api, version: int) -> None:
    flexible = response_class(api, version).__header_schema__.__flexible__
    assert flexible == (version >= api.flexible_from and api.key != API_VERSIONS)


@pytest.mark.parametrize("version", range(1, 11))
def test_a_message_of_the_newest_version_fits_into_older_ones(version: int) -> None:
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
    if version >= 8:  # since then answers are per group, which no older message can say
        with pytest.raises(EncodeError, match="groups is missing"):
            response_writer(9, version)(message, 1)
    else:
        assert b"t" in response_writer(9, version)(message, 1)


def test_a_lacking_attribute_means_the_default_where_the_schema_has_one() -> None:
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
    assert response_writer(1, 12)(message, 1) == kio_frame(expected, 1)


def test_a_tagged_structure_of_another_class_is_left_out_when_it_says_the_default() -> None:
    entity = response_module(1, 12).PartitionData
    message = smallest(entity)
    usual = SimpleNamespace(epoch=-1, end_offset=-1)
    told = SimpleNamespace(epoch=4, end_offset=-1)
    values = vars(loose(message))
    write = body_writer(entity)
    assert write(SimpleNamespace(**dict(values, diverging_epoch=usual))) == write(message)
    assert len(write(SimpleNamespace(**dict(values, diverging_epoch=told)))) > len(write(message))


def test_records_may_be_any_bytes_like_object() -> None:
    entity = response_module(1, 4).PartitionData
    values = vars(loose(smallest(entity)))
    write = body_writer(entity)
    expected = write(SimpleNamespace(**dict(values, records=b"abc")))
    for records in (bytearray(b"abc"), memoryview(b"abc")):
        assert write(SimpleNamespace(**dict(values, records=records))) == expected


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("make", [smallest, largest])
def test_the_pieces_of_a_frame_are_all_of_it(version: int, make: Any) -> None:
    message = make(response_module(1, version).FetchResponse)
    pieces = response_pieces(1, version)(message, -7)
    assert b"".join(pieces) == kio_frame(message, -7)


def commit_response(**changes: Any) -> Any:
    partition = SimpleNamespace(partition_index=0, error_code=0)
    topic = SimpleNamespace(name=changes.pop("name", "t"), partitions=[partition])
    for name in [name for name in changes if hasattr(partition, name)]:
        setattr(partition, name, changes.pop(name))
    return SimpleNamespace(**{"throttle_time": timedelta(0), "topics": [topic], **changes})


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (commit_response(name=None), r"topics\[0\].name is None"),
        (commit_response(name=b"t"), r"topics\[0\].name is bytes, not str"),
        (commit_response(name="x" * 32_768), r"topics\[0\].name has 32768 bytes"),
        (commit_response(name="\ud800"), r"topics\[0\].name has a character that UTF-8 cannot"),
        (commit_response(topics=None), "topics is None"),
        (commit_response(topics=7), "topics is int, not a sequence"),
        (commit_response(error_code=40_000), r"topics\[0\].partitions\[0\].error_code is 40000"),
        (commit_response(partition_index="0"), r"partition_index is '0', not of the type int32"),
        (commit_response(throttle_time=5), "throttle_time is 5, not a timedelta"),
        (SimpleNamespace(topics=[]), "throttle_time is missing"),
    ],
)
def test_what_cannot_be_written_is_named_by_its_path(
    version: int, message: Any, complaint: str
) -> None:
    with pytest.raises(EncodeError, match=f"OffsetCommitResponse v{version} .*{complaint}"):
        response_writer(8, version)(message, 1)


def test_more_topic_names_than_are_kept_are_written_all_the_same() -> None:
    write = response_writer(8, 8)
    for number in range(NAMES_MAX + 10):
        name = f"topic-{number}"
        assert name.encode() in write(commit_response(name=name), 1)
