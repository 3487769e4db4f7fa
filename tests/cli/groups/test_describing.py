"""ConsumerGroupDescribe by our schemas, against bytes of another library; what groups become."""

import uuid
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError
from kio.schema.consumer_group_describe.v0 import request as request_0
from kio.schema.consumer_group_describe.v0 import response as response_0
from kio.schema.consumer_group_describe.v1 import request as request_1
from kio.schema.consumer_group_describe.v1 import response as response_1
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio_messages import kio_bytes
from kohort.cli.groups.describing import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    classic,
    consumer,
)
from kohort.cli.groups.errors import Refusal
from kohort.cli.groups.rows import Group, Member, Partition


def answer(of: ModuleType, error: ErrorCode, message: str | None, **member: int) -> Any:
    """An answer about `g`, whose one member has `orders` 0 and is to have 0 and 1."""

    def assignment(*partitions: int) -> Any:
        topic = of.TopicPartitions(
            topic_id=uuid.UUID(int=5), topic_name="orders", partitions=partitions
        )
        return of.Assignment(topic_partitions=(topic,))

    one = of.Member(
        member_id="m",
        instance_id="i",
        rack_id=None,
        member_epoch=6,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=("orders",),
        assignment=assignment(0),
        target_assignment=assignment(0, 1),
        **member,
    )
    group = of.DescribedGroup(
        error_code=error,
        error_message=message,
        group_id="g",
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=(one,),
    )
    return of.ConsumerGroupDescribeResponse(throttle_time=timedelta(0), groups=(group,))


def told(version: int, of: Any) -> Any:
    data = kio_bytes(of)
    return ConsumerGroupDescribeResponse.decode(data, version=version).to_dict()["groups"][0]


@pytest.mark.parametrize(("version", "of"), [(0, request_0), (1, request_1)])
def test_a_request_is_what_another_library_reads(version: int, of: ModuleType) -> None:
    ours = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    read, _ = entity_reader(of.ConsumerGroupDescribeRequest)(
        memoryview(bytes(ours.encode(version=version))), 0
    )
    assert read == of.ConsumerGroupDescribeRequest(
        group_ids=("g",), include_authorized_operations=False
    )


@pytest.mark.parametrize(
    ("version", "of", "kind", "upgraded"),
    [
        (0, response_0, {}, None),
        (1, response_1, {"member_type": -1}, None),
        (1, response_1, {"member_type": 0}, False),
        (1, response_1, {"member_type": 1}, True),
    ],
)
def test_a_kip_848_group_is_read_with_epochs_and_targets(
    version: int, of: ModuleType, kind: dict[str, int], upgraded: bool | None
) -> None:
    has, wants = (Partition("orders", 0),), (Partition("orders", 0), Partition("orders", 1))
    member = Member("m", "i", "/127.0.0.1", "c", has, 6, wants, upgraded)
    group = Group("g", "Reconciling", "uniform", (member,), 8, 7)
    assert consumer(told(version, answer(of, ErrorCode.none, None, **kind))) == group


def test_what_is_no_kip_848_group_is_none() -> None:
    said = answer(response_1, ErrorCode.group_id_not_found, "Group g not found.")
    assert consumer(told(1, said)) is None


def test_a_refusal_has_the_brokers_message_where_it_gives_one() -> None:
    said = answer(response_1, ErrorCode.group_authorization_failed, None)
    refused = consumer(told(1, said))
    assert isinstance(refused, Refusal)
    assert refused.message == "Group authorization failed."
    refused = classic({"error": "[Error 69] GroupIdNotFoundError: Group g not found."})
    assert isinstance(refused, Refusal)
    assert str(refused) == (
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group g not found."
    )


def test_what_passes_is_raised_to_be_asked_again() -> None:
    said = answer(response_1, ErrorCode.coordinator_not_available, None)
    with pytest.raises(CoordinatorNotAvailableError):
        consumer(told(1, said))
    with pytest.raises(CoordinatorNotAvailableError):
        classic({"error": "[Error 15] CoordinatorNotAvailableError"})
