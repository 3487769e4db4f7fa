"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete in every version."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness

E = ErrorCode
NOT_ASKED = -(2**31)


def describe(broker: BrokerHarness, version: int, *groups: str, asked: bool = True) -> Any:
    request = {"groups": groups, "include_authorized_operations": asked}
    return broker.call("DescribeGroups", version, **request).groups


def delete_offsets(
    broker: BrokerHarness, group_id: str, *topics: tuple[str, tuple[int, ...]]
) -> Any:
    asked = tuple(
        {"name": name, "partitions": tuple({"partition_index": index} for index in partitions)}
        for name, partitions in topics
    )
    response = broker.call("OffsetDelete", group_id=group_id, topics=asked)
    return response.error_code, [
        (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions])
        for topic in response.topics
    ]


def test_an_empty_request_describes_and_deletes_nothing() -> None:
    broker = BrokerHarness()
    assert describe(broker, 5) == ()
    assert broker.call("DeleteGroups", groups_names=()).results == ()


def test_a_list_waits_until_the_groups_are_durable() -> None:
    broker = BrokerHarness()
    broker.create_topic("t")
    broker.commit("simple", "t", 0)
    deleting = broker.send("DeleteGroups", groups_names=("simple",))
    asked = broker.send("ListGroups", 3)
    assert not asked.is_done
    broker.run_loop()
    assert deleting.is_done
    assert asked.response.groups == ()


def test_a_list_is_rejected_while_a_partition_is_loading() -> None:
    broker = BrokerHarness()
    broker.create_topic("t")
    for group_id in ("a", "b"):
        broker.commit(group_id, "t", 0)
    broker.run_loop()
    later = BrokerHarness(files=broker.files)
    later.node.coordinators.load(range(5))
    early = later.send("ListGroups", 3)
    assert early.response.error_code is E.coordinator_load_in_progress
    assert early.response.groups == ()
    later.run_loop()
    assert {group.group_id for group in later.call("ListGroups", 3).groups} == {"a", "b"}


@pytest.mark.interpreted  # replaces a constant
def test_the_groups_of_partitions_are_listed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.network.request.FIRST_STEPS_MAX", 1)
    broker = BrokerHarness()
    broker.create_topic("orders")
    groups = [f"g{number}" for number in range(20)]
    for group in groups:
        broker.commit(group, "orders", 0)
    broker.run_loop()
    contexts = broker.node.coordinators.contexts
    assert len(contexts) > 2
    pending = broker.send("ListGroups", states_filter=(), types_filter=())
    moved = max(contexts)
    broker.node.coordinators.unload(moved)
    broker.run_loop()
    partition_of = broker.node.coordinators.partition_of
    assert {each.group_id for each in pending.response.groups} == {
        each for each in groups if partition_of(each) != moved
    }


@pytest.mark.interpreted  # replaces a constant
def test_the_members_of_a_consumer_group_are_described_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kohort.broker.network.request.FIRST_STEPS_MAX", 1)
    broker = BrokerHarness()
    broker.create_topic("orders", 10)
    for number in range(10):
        joined = broker.call(
            *("ConsumerGroupHeartbeat", 1),
            group_id="g",
            member_id=f"m{number}",
            rebalance_timeout=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )
        assert joined.error_code is E.none
    pending, turns = broker.send("ConsumerGroupDescribe", group_ids=("g",)), 0
    while broker.callbacks:
        turns += 1
        broker.callbacks.pop(0)()
    assert turns > 10
    (group,) = pending.response.groups
    assert {each.member_id for each in group.members} == {f"m{number}" for number in range(10)}


@pytest.mark.parametrize("version", range(3))
def test_each_group_is_deleted_once_or_gets_an_error(version: int) -> None:
    broker = BrokerHarness()
    broker.create_topic("t")
    broker.commit("simple", "t", 0)
    broker.join("joined")
    response = broker.call(
        "DeleteGroups", version, groups_names=("joined", "simple", "missing", "simple")
    )
    assert [(result.group_id, result.error_code) for result in response.results] == [
        ("joined", E.non_empty_group),
        ("simple", E.none),
        ("missing", E.group_id_not_found),
    ]
    assert describe(broker, 6, "simple")[0].error_code is E.group_id_not_found


def test_a_partition_whose_offset_is_deleted_twice_is_returned_twice() -> None:
    broker = BrokerHarness()
    broker.create_topic("t", 2)
    broker.commit("g", "t", 0, 1)
    assert delete_offsets(broker, "g", ("t", (1, 0, 1))) == (
        E.none,
        [("t", [(1, E.none), (0, E.none), (1, E.none)])],
    )


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize(
    ("group_id", "session_ms", "error"),
    [
        ("", 5_999, E.invalid_group_id),
        ("g", 5_999, E.invalid_session_timeout),
        ("g", 1_800_001, E.invalid_session_timeout),
        ("g", -1, E.invalid_session_timeout),
        ("g", 6_000, E.unknown_member_id),
        ("g", 1_800_000, E.unknown_member_id),
    ],
)
def test_session_timeouts_out_of_bounds_are_rejected_before_the_coordinator(
    group_id: str, session_ms: int, error: E, *, leads: bool
) -> None:
    broker = BrokerHarness()
    broker.node.coordinators._leads = lambda _partition: leads
    if not leads and error is E.unknown_member_id:
        error = E.not_coordinator
    response = broker.call(
        "JoinGroup",
        5,
        group_id=group_id,
        session_timeout=session_ms,
        rebalance_timeout=60_000,
        member_id="me",
        protocol_type="consumer",
        protocols=(),
    )
    assert response.error_code is error
    assert response.member_id == ("" if error is E.not_coordinator else "me")


def test_a_message_too_long_for_the_response_fails_the_whole_request() -> None:
    broker = BrokerHarness()
    long = "g" * 32_751
    assert [g.error_message for g in describe(broker, 6, long[1:])] == [
        f"Group {long[1:]} not found."
    ]
    result = [
        (g.error_code, g.error_message, g.group_id, g.group_state, g.authorized_operations)
        for g in describe(broker, 6, "g", long)
    ]
    assert result == [(E.unknown_server_error, None, name, "", NOT_ASKED) for name in ("g", long)]
    assert [g.error_code for g in describe(broker, 5, long)] == [E.none]
