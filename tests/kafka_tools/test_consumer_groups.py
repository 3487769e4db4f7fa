"""kafka-consumer-groups: reset offsets, delete. tests/cli/groups/test_as_kafkas_tool.py tests what
it lists and describes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..clients.adapter import Admin, Committed, ConsumerSettings, Partition
from ..clients.consumers import numbered, until
from ..clients.kafka_python import KafkaPython
from .tools import Result, Tools, Verifiable

# The end offsets after ten records, distributed over four partitions in turn.
ENDS = {0: 3, 1: 3, 2: 2, 3: 2}


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


def test_reset_offsets_changes_offsets_with_execute_but_not_with_dry_run(
    tools: Tools, admin: Admin, topic: str, empty_group: str
) -> None:
    reset = ("--reset-offsets", "--group", empty_group)

    def new_offsets(result: Result) -> dict[int, int]:
        rows = result.table()
        assert all((row["GROUP"], row["TOPIC"]) == (empty_group, topic) for row in rows)
        return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows}

    beginning = dict.fromkeys(range(4), 0)
    planned = tools.run("groups", *reset, "--all-topics", "--by-duration", "PT1H", "--dry-run")
    assert new_offsets(planned) == beginning
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
