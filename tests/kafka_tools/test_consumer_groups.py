"""kafka-consumer-groups: what it says about groups, and what it does to their offsets."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..clients.adapter import Admin, Committed, ConsumerSettings, Place
from ..clients.kafka_python import KafkaPython
from ..clients.stories import numbered, until
from .tools import Ended, Tools, Verifiable

# Where ten records end that go to four partitions by turns.
ENDS = {0: 3, 1: 3, 2: 2, 3: 2}


def at_once(tools: Tools, *commands: tuple[object, ...]) -> list[Ended]:
    """The answers to commands that do not mind each other: their JVMs start side by side."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda command: tools.run("groups", *command), commands))


@pytest.fixture
def read_group(client: KafkaPython, topic: str, group: str) -> str:
    """A group without members that has read 3, 3, 2 and 2 records of `topic`, which are all."""
    client.produce(topic, numbered(10, partitions=4))
    reader = client.consumer(ConsumerSettings(group))
    ends = {Place(topic, n): Committed(end, "") for n, end in ENDS.items()}
    reader.assign(*ends)
    reader.commit(ends)
    reader.close()
    return group


def offsets_of(admin: Admin, group: str) -> dict[int, int]:
    return {place.partition: said.offset for place, said in admin.group_offsets(group).items()}


@pytest.fixture
def member(
    verifiable: Callable[..., Verifiable], client: KafkaPython, topic: str, group: str
) -> Verifiable:
    """The one member of `group`, which has read `topic` to its ends."""
    client.produce(topic, numbered(10, partitions=4))
    who = ("--group-id", group, "--group-instance-id", "first")
    member = verifiable("consumer", "--topic", topic, *who)
    until(lambda: member.committed() == ENDS, "it has committed all")
    return member


def test_a_living_group_is_listed_and_described(
    tools: Tools, member: Verifiable, topic: str, group: str
) -> None:
    about = ("--describe", "--group", group)
    offsets, members, state, listed = at_once(
        tools,
        (*about, "--offsets", "--verbose"),
        (*about, "--members", "--verbose"),
        (*about, "--state"),
        ("--list", "--state", "stable", "--type", "classic"),
    )
    (told,) = members.table()
    assert told["CONSUMER-ID"].startswith("first-")
    who = {
        "CONSUMER-ID": told["CONSUMER-ID"],
        "HOST": "/127.0.0.1",
        "CLIENT-ID": f"consumer-{group}-first",
    }
    assert told == {
        **who,
        "GROUP": group,
        "GROUP-INSTANCE-ID": "first",
        "#PARTITIONS": "4",
        "CURRENT-EPOCH": "-",
        "CURRENT-ASSIGNMENT": f"{topic}:0,1,2,3",
        "TARGET-EPOCH": "-",
        "TARGET-ASSIGNMENT": "-",
    }
    where = {"GROUP": group, "TOPIC": topic, "LEADER-EPOCH": "-", "LAG": "0"}
    assert sorted(offsets.table(), key=lambda row: row["PARTITION"]) == [
        {
            **who,
            **where,
            "PARTITION": str(partition),
            "CURRENT-OFFSET": str(end),
            "LOG-END-OFFSET": str(end),
        }
        for partition, end in ENDS.items()
    ]
    (told,) = state.table()
    assert told.pop("COORDINATOR(ID)").startswith("127.0.0.1:")
    stable = {"GROUP": group, "STATE": "Stable"}
    assert told == {**stable, "ASSIGNMENT-STRATEGY": "range", "#MEMBERS": "1"}
    assert {**stable, "TYPE": "Classic"} in listed.table()


def test_a_living_groups_offsets_are_not_to_be_reset_nor_deleted_nor_the_group(
    tools: Tools, admin: Admin, member: Verifiable, topic: str, group: str
) -> None:
    reset, forgotten, deleted = at_once(
        tools,
        ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"),
        ("--delete-offsets", "--group", group, "--topic", topic),
        ("--delete", "--group", group),
    )
    assert (
        f"Error: Assignments can only be reset if the group '{group}' is inactive, but the current "
        "state is Stable." in reset.said
    )
    assert forgotten.said.count("GroupSubscribedToTopicException") == 4
    assert "GroupNotEmptyException: The group is not empty." in deleted.said
    assert offsets_of(admin, group) == ENDS


def test_a_group_without_members_is_described_and_one_that_is_not_there_is_refused(
    tools: Tools, topic: str, read_group: str
) -> None:
    about = ("--describe", "--group", read_group)
    offsets, members, state, nobody = at_once(
        tools,
        about,
        (*about, "--members"),
        (*about, "--state"),
        ("--describe", "--group", f"{read_group}-not"),
    )
    assert f"Consumer group '{read_group}' has no active members." in offsets.said
    rows = sorted(offsets.table(), key=lambda row: row["PARTITION"])
    assert [(row["CURRENT-OFFSET"], row["LAG"], row["CONSUMER-ID"]) for row in rows] == [
        (end, "0", "-") for end in "3322"
    ]
    assert f"Consumer group '{read_group}' has no active members." in members.said
    (told,) = (line for line in state.lines() if line.startswith(read_group))
    assert told.split()[-2:] == ["Empty", "0"]
    assert f"GroupIdNotFoundException: Group {read_group}-not not found." in nobody.said


def test_offsets_are_reset_when_told_to_execute_and_only_shown_in_a_dry_run(
    tools: Tools, admin: Admin, topic: str, read_group: str
) -> None:
    reset = ("--reset-offsets", "--group", read_group)

    def new_offsets(ended: Ended) -> dict[int, int]:
        rows = ended.table()
        assert all((row["GROUP"], row["TOPIC"]) == (read_group, topic) for row in rows)
        return {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows}

    begin = dict.fromkeys(range(4), 0)
    shown = at_once(
        tools,
        (*reset, "--topic", topic, "--to-earliest", "--dry-run"),
        (*reset, "--all-topics", "--by-duration", "PT1H", "--dry-run"),
        (*reset, "--all-topics", "--to-current", "--dry-run"),
        # Beyond the end means the end.
        (*reset, "--topic", f"{topic}:0,1", "--to-offset", 99, "--dry-run"),
    )
    assert list(map(new_offsets, shown)) == [begin, begin, ENDS, {0: 3, 1: 3}]
    assert offsets_of(admin, read_group) == ENDS

    done = tools.run("groups", *reset, "--topic", f"{topic}:0,1", "--shift-by", -2, "--execute")
    assert new_offsets(done) == {0: 1, 1: 1}
    assert offsets_of(admin, read_group) == {0: 1, 1: 1, 2: 2, 3: 2}
    done = tools.run("groups", *reset, "--all-topics", "--to-earliest", "--execute")
    assert new_offsets(done) == begin
    assert offsets_of(admin, read_group) == begin


def test_a_groups_plan_is_exported_and_executed_from_the_file(
    tools: Tools, admin: Admin, topic: str, read_group: str, tmp_path: Path
) -> None:
    reset = ("--reset-offsets", "--group", read_group)
    exported = tools.run("groups", *reset, "--all-topics", "--to-current", "--export", "--dry-run")
    assert sorted(exported.lines()) == [f"{topic},{n},{end}" for n, end in ENDS.items()]
    plan = tmp_path / "plan.csv"
    plan.write_text(f'"{topic}",0,1\n"{topic}",2,2\n')
    tools.run("groups", *reset, "--from-file", plan, "--execute")
    assert offsets_of(admin, read_group) == {0: 1, 1: 3, 2: 2, 3: 2}


def test_offsets_and_groups_are_deleted(
    tools: Tools, admin: Admin, topic: str, read_group: str
) -> None:
    some = ("--topic", f"{topic}:1,2", "--topic", f"{topic}-not")
    deleted = tools.run("groups", "--delete-offsets", "--group", read_group, *some)
    assert f"Request succeeded for deleting offsets from group {read_group}." in deleted.said
    done = [row for row in deleted.table() if row["TOPIC"] == topic]
    assert sorted((row["PARTITION"], row["STATUS"]) for row in done) == [
        ("1", "Successful"),
        ("2", "Successful"),
    ]
    assert "UnknownTopicOrPartitionException" in deleted.said
    assert offsets_of(admin, read_group) == {0: 3, 3: 2}

    both = ("--group", read_group, "--group", f"{read_group}-not")
    deleted = tools.run("groups", "--delete", *both)
    assert (
        f"* Group '{read_group}-not' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
        in deleted.said
    )
    assert f"groups were deleted successfully: '{read_group}'" in deleted.said
    assert read_group not in tools.run("groups", "--list").lines()
    assert offsets_of(admin, read_group) == {}
