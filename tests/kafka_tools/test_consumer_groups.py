"""kafka-consumer-groups: list, describe, reset offsets, delete."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..clients.adapter import Admin, Committed, ConsumerSettings, Partition
from ..clients.consumers import numbered, until
from ..clients.kafka_python import KafkaPython
from .tools import Result, Tools, Verifiable

# The end offsets after ten records, distributed over four partitions in turn.
ENDS = {0: 3, 1: 3, 2: 2, 3: 2}


def run_concurrently(tools: Tools, *commands: tuple[object, ...]) -> list[Result]:
    """Run independent commands; two JVMs at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda command: tools.run("groups", *command), commands))


@pytest.fixture
def empty_group(client: KafkaPython, topic: str, group: str) -> str:
    """A group without members that has committed the end offsets of `topic`."""
    client.produce(topic, numbered(10, partitions=4))
    reader = client.consumer(ConsumerSettings(group))
    ends = {Partition(topic, n): Committed(end, "") for n, end in ENDS.items()}
    reader.assign(*ends)
    reader.commit(ends)
    reader.close()
    return group


def offsets_of(admin: Admin, group: str) -> dict[int, int]:
    return {partition: at.offset for (_, partition), at in admin.group_offsets(group).items()}


@pytest.fixture
def member(
    verifiable: Callable[..., Verifiable], client: KafkaPython, topic: str, group: str
) -> Verifiable:
    """The only member of `group`; it has committed the end offsets of `topic`."""
    client.produce(topic, numbered(10, partitions=4))
    options = ("--group-id", group, "--group-instance-id", "first")
    member = verifiable("consumer", "--topic", topic, *options)
    until(lambda: member.committed() == ENDS, "the end offsets are committed")
    return member


def test_group_with_a_member_is_listed_and_described(
    tools: Tools, member: Verifiable, topic: str, group: str
) -> None:
    describe = ("--describe", "--group", group)
    offsets, members, state, listed = run_concurrently(
        tools,
        (*describe, "--offsets", "--verbose"),
        (*describe, "--members", "--verbose"),
        (*describe, "--state"),
        ("--list", "--state", "stable", "--type", "classic"),
    )
    (row,) = members.table()
    assert row["CONSUMER-ID"].startswith("first-")
    identity = {
        "CONSUMER-ID": row["CONSUMER-ID"],
        "HOST": "/127.0.0.1",
        "CLIENT-ID": f"consumer-{group}-first",
    }
    assert row == {
        **identity,
        "GROUP": group,
        "GROUP-INSTANCE-ID": "first",
        "#PARTITIONS": "4",
        "CURRENT-EPOCH": "-",
        "CURRENT-ASSIGNMENT": f"{topic}:0,1,2,3",
        "TARGET-EPOCH": "-",
        "TARGET-ASSIGNMENT": "-",
    }
    common = {"GROUP": group, "TOPIC": topic, "LEADER-EPOCH": "-", "LAG": "0"}
    assert sorted(offsets.table(), key=lambda row: row["PARTITION"]) == [
        {
            **identity,
            **common,
            "PARTITION": str(partition),
            "CURRENT-OFFSET": str(end),
            "LOG-END-OFFSET": str(end),
        }
        for partition, end in ENDS.items()
    ]
    (row,) = state.table()
    assert row.pop("COORDINATOR(ID)").startswith("127.0.0.1:")
    stable = {"GROUP": group, "STATE": "Stable"}
    assert row == {**stable, "ASSIGNMENT-STRATEGY": "range", "#MEMBERS": "1"}
    assert {**stable, "TYPE": "Classic"} in listed.table()


def test_group_with_a_member_rejects_offset_reset_and_deletion(
    tools: Tools, admin: Admin, member: Verifiable, topic: str, group: str
) -> None:
    reset, offsets_deleted, group_deleted = run_concurrently(
        tools,
        ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"),
        ("--delete-offsets", "--group", group, "--topic", topic),
        ("--delete", "--group", group),
    )
    assert (
        f"Error: Assignments can only be reset if the group '{group}' is inactive, but the current "
        "state is Stable." in reset.output
    )
    assert offsets_deleted.output.count("GroupSubscribedToTopicException") == 4
    assert "GroupNotEmptyException: The group is not empty." in group_deleted.output
    assert offsets_of(admin, group) == ENDS


def test_empty_group_is_described_and_unknown_group_is_not_found(
    tools: Tools, topic: str, empty_group: str
) -> None:
    describe = ("--describe", "--group", empty_group)
    offsets, members, state, unknown = run_concurrently(
        tools,
        describe,
        (*describe, "--members"),
        (*describe, "--state"),
        ("--describe", "--group", f"{empty_group}-unknown"),
    )
    assert f"Consumer group '{empty_group}' has no active members." in offsets.output
    rows = sorted(offsets.table(), key=lambda row: row["PARTITION"])
    assert [(row["CURRENT-OFFSET"], row["LAG"], row["CONSUMER-ID"]) for row in rows] == [
        (end, "0", "-") for end in "3322"
    ]
    assert f"Consumer group '{empty_group}' has no active members." in members.output
    (line,) = (line for line in state.lines() if line.startswith(empty_group))
    assert line.split()[-2:] == ["Empty", "0"]
    assert f"GroupIdNotFoundException: Group {empty_group}-unknown not found." in unknown.output


def test_reset_offsets_changes_offsets_with_execute_but_not_with_dry_run(
    tools: Tools, admin: Admin, topic: str, empty_group: str
) -> None:
    reset = ("--reset-offsets", "--group", empty_group)

    def new_offsets(result: Result) -> dict[int, int]:
        rows = result.table()
        assert all((row["GROUP"], row["TOPIC"]) == (empty_group, topic) for row in rows)
        return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows}

    beginning = dict.fromkeys(range(4), 0)
    results = run_concurrently(
        tools,
        (*reset, "--topic", topic, "--to-earliest", "--dry-run"),
        (*reset, "--all-topics", "--by-duration", "PT1H", "--dry-run"),
        (*reset, "--all-topics", "--to-current", "--dry-run"),
        # An offset above the end is set to the end.
        (*reset, "--topic", f"{topic}:0,1", "--to-offset", 99, "--dry-run"),
    )
    assert list(map(new_offsets, results)) == [beginning, beginning, ENDS, {0: 3, 1: 3}]
    assert offsets_of(admin, empty_group) == ENDS

    executed = tools.run("groups", *reset, "--topic", f"{topic}:0,1", "--shift-by", -2, "--execute")
    assert new_offsets(executed) == {0: 1, 1: 1}
    assert offsets_of(admin, empty_group) == {0: 1, 1: 1, 2: 2, 3: 2}
    executed = tools.run("groups", *reset, "--all-topics", "--to-earliest", "--execute")
    assert new_offsets(executed) == beginning
    assert offsets_of(admin, empty_group) == beginning


def test_reset_plan_is_exported_and_executed_from_a_file(
    tools: Tools, admin: Admin, topic: str, empty_group: str, tmp_path: Path
) -> None:
    reset = ("--reset-offsets", "--group", empty_group)
    exported = tools.run("groups", *reset, "--all-topics", "--to-current", "--export", "--dry-run")
    assert sorted(exported.lines()) == [f"{topic},{n},{end}" for n, end in ENDS.items()]
    plan = tmp_path / "plan.csv"
    plan.write_text(f'"{topic}",0,1\n"{topic}",2,2\n')
    tools.run("groups", *reset, "--from-file", plan, "--execute")
    assert offsets_of(admin, empty_group) == {0: 1, 1: 3, 2: 2, 3: 2}


def test_offsets_and_groups_are_deleted(
    tools: Tools, admin: Admin, topic: str, empty_group: str
) -> None:
    topics = ("--topic", f"{topic}:1,2", "--topic", f"{topic}-unknown")
    deleted = tools.run("groups", "--delete-offsets", "--group", empty_group, *topics)
    assert f"Request succeeded for deleting offsets from group {empty_group}." in deleted.output
    rows = [row for row in deleted.table() if row["TOPIC"] == topic]
    assert sorted((row["PARTITION"], row["STATUS"]) for row in rows) == [
        ("1", "Successful"),
        ("2", "Successful"),
    ]
    assert "UnknownTopicOrPartitionException" in deleted.output
    assert offsets_of(admin, empty_group) == {0: 3, 3: 2}

    both = ("--group", empty_group, "--group", f"{empty_group}-unknown")
    deleted = tools.run("groups", "--delete", *both)
    assert (
        f"* Group '{empty_group}-unknown' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
        in deleted.output
    )
    assert f"groups were deleted successfully: '{empty_group}'" in deleted.output
    assert empty_group not in tools.run("groups", "--list").lines()
    assert offsets_of(admin, empty_group) == {}


def test_groups_of_the_consumer_protocol_are_listed_by_their_type(
    tools: Tools, verifiable: Callable[..., Verifiable], topic: str, group: str
) -> None:
    options = ("--group-id", group, "--group-protocol", "consumer")
    member = verifiable("consumer", "--topic", topic, *options)
    until(lambda: len(member.assignment()) == 4, "it owns all partitions")
    listed = tools.run("all-groups", "--list", "--group-type", "consumer").table()
    assert {"GROUP": group, "TYPE": "Consumer", "PROTOCOL": "consumer"} in listed
    assert group not in tools.run("all-groups", "--list", "--share").output
