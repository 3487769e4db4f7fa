"""The event log of a broker with a client on a real socket, and docs/events.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kohort.conformance.wire import AsyncClient
from kohort.coordinator.outcome import EventType
from kohort.log.group_commit import Durability
from kohort.offsets.causes import Cause
from support.running_broker import running_broker

DOCS = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
GROUP = "orders"


async def run_member(client: AsyncClient) -> None:
    """Create a topic; join, sync, commit, commit for an unknown generation, and leave."""
    software = {"client_software_name": "test-client", "client_software_version": "1.0"}
    await client.call("ApiVersions", 3, **software)
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    await client.call("CreateTopics", 5, topics=[topic], timeout=30_000)
    join = {
        "group_id": GROUP,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range"}],
    }
    first = await client.call("JoinGroup", 9, **join, reason="starting")
    member = {"group_id": GROUP, "member_id": first["member_id"]}
    reason = "need to re-join with the given member-id"
    joined = await client.call("JoinGroup", 9, **{**join, **member}, reason=reason)
    generation = joined["generation_id"]
    await client.call(
        "SyncGroup",
        5,
        **member,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": first["member_id"]}],
    )
    partition = {"partition_index": 0, "committed_offset": 42, "committed_leader_epoch": -1}
    topics = [{"name": "t", "partitions": [partition]}]
    for epoch in (generation, 99):
        values = {**member, "generation_id_or_member_epoch": epoch, "topics": topics}
        await client.call("OffsetCommit", 8, **values)
    leaving = {"member_id": first["member_id"], "reason": "the consumer is being closed"}
    await client.call("LeaveGroup", 5, group_id=GROUP, members=[leaving])


async def events_of_a_member(
    folder: Path | None, events: str | None = None, durability: Durability = "os"
) -> list[dict[str, Any]]:
    """The lines that a broker writes for one client until it is stopped."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    if events is not None:
        settings["kohort.events"] = events
    async with running_broker(settings, data_dir=folder, durability=durability) as broker:
        client = await AsyncClient.connect(broker.port, client_id="checkout")
        await run_member(client)
        client.close()
    return written(folder) if folder else []


def written(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("events/*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


TYPES = (
    "group_created",
    "join_received",
    "join_received",
    "member_joined",
    "state_change",
    "rebalance_started",
    "state_change",
    "join_completed",
    "sync_completed",
    "state_change",
    "commit_rejected",
    "leave_received",
    "state_change",
    "rebalance_started",
    "state_change",
    "group_emptied",
)


async def test_the_event_log_contains_the_life_of_a_member(tmp_path: Path) -> None:
    lines = await events_of_a_member(tmp_path)
    assert [line["type"] for line in lines] == list(TYPES)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    left = next(line for line in lines if line["type"] == "leave_received")
    assert left["reason"] == "the consumer is being closed"
    assert left["detail"] == {"cause": "LEFT_CLEANLY"}
    assert left["client_software"] == "test-client/1.0"


async def test_accepted_commits_are_events_only_with_all(tmp_path: Path) -> None:
    lines = await events_of_a_member(tmp_path, "all")
    (commit,) = (line for line in lines if line["type"] == "commit_accepted")
    assert (commit["generation"], commit["detail"]) == (1, {"t-0": "42"})


async def test_pipelined_commits_are_an_event_each(tmp_path: Path) -> None:
    settings = {"kohort.events": "all", "offsets.topic.num.partitions": "1"}
    async with running_broker(settings, data_dir=tmp_path) as broker:
        client = await AsyncClient.connect(broker.port)
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        await client.call("CreateTopics", 5, topics=[topic], timeout=30_000)
        commits = []
        for offset in range(9):
            partition = {"partition_index": 0, "committed_offset": offset}
            topics = [{"name": "t", "partitions": [partition]}]
            values = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": topics}
            commits.append(client.send("OffsetCommit", 8, **values))
        for each in commits:
            await each
        client.close()
    accepted = [each["detail"] for each in written(tmp_path) if each["type"] == "commit_accepted"]
    assert accepted == [{"t-0": str(offset)} for offset in range(9)]


async def test_sequence_numbers_continue_after_a_restart(tmp_path: Path) -> None:
    before = await events_of_a_member(tmp_path)
    lines = await events_of_a_member(tmp_path)
    assert len(lines) > len(before)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    loaded = lines[len(before)]
    assert (loaded["type"], loaded["group"]) == ("group_loaded", GROUP)


async def test_without_events_there_is_no_folder(tmp_path: Path) -> None:
    assert await events_of_a_member(tmp_path, "off") == []
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize("named", [True, False])
async def test_a_broker_in_memory_writes_no_events(tmp_path: Path, named: bool) -> None:
    assert await events_of_a_member(tmp_path if named else None, durability="none") == []
    assert list(tmp_path.iterdir()) == []


# --- the docs


def normalized(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line without values that differ between runs."""
    text = json.dumps(line | {"cluster": "", "ts": "", "duration_ms": line["duration_ms"] and 0})
    shown: dict[str, Any] = json.loads(
        re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", text)
    )
    return shown


async def test_the_lines_in_the_docs_are_those_that_are_written(tmp_path: Path) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)
    shown = [normalized(json.loads(line)) for line in block.splitlines()]
    assert len(shown) > 5
    written = [normalized(line) for line in await events_of_a_member(tmp_path)]
    assert [line for line in shown if line not in written] == []


def rows(heading: str) -> list[str]:
    """Return the first cells of the table under this heading, without their backticks."""
    section = DOCS.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


async def test_the_docs_list_every_column_type_and_cause(tmp_path: Path) -> None:
    line = (await events_of_a_member(tmp_path))[0]
    assert rows("Columns") == list(line)
    assert sorted(rows("Types")) == sorted(EventType), "correct the table in docs/events.md"
    expected = "the table in docs/events.md must list Cause in its order, with its texts"
    assert rows("Causes") == [cause.name for cause in Cause], expected
    assert all(f"| `{cause.name}` | {cause} |" in DOCS for cause in Cause), expected
