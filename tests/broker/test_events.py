"""The event log of a broker with a client on a real socket, and docs/events.md."""

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from frames import answer_in, framed
from kio.schema.api_versions import v3 as api_versions
from kio.schema.create_topics import v5 as create_topics
from kio.schema.join_group import v9 as join_group
from kio.schema.leave_group import v5 as leave_group
from kio.schema.offset_commit import v8 as offset_commit
from kio.schema.sync_group import v5 as sync_group
from kio.static.primitive import i32Timedelta
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator.outcome import EventType
from kohort.log.group_commit import Durability
from kohort.offsets.causes import Cause

DOCS = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
GROUP = "orders"


class Client:
    """The only member of a group."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._requests = 0
        self.member_id = ""

    async def __aenter__(self) -> "Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        software = {"client_software_name": "test-client", "client_software_version": "1.0"}
        await self.request(api_versions, "ApiVersions", **software)
        topic = create_topics.request.CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        await self.request(create_topics, "CreateTopics", topics=(topic,))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def request(self, api: Any, name: str, **fields: Any) -> Any:
        request = getattr(api.request, f"{name}Request")(**fields)
        response = getattr(api.response, f"{name}Response")
        self._requests += 1
        self._writer.write(framed(request, correlation_id=self._requests, client_id="checkout"))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return answer_in(await self._reader.readexactly(size), response)[1]

    async def join(self, reason: str) -> Any:
        protocol = join_group.request.JoinGroupRequestProtocol(name="range", metadata=b"")
        timeout = i32Timedelta.parse(timedelta(seconds=30))
        joined = await self.request(
            join_group,
            "JoinGroup",
            group_id=GROUP,
            session_timeout=timeout,
            rebalance_timeout=timeout,
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(protocol,),
            reason=reason,
        )
        self.member_id = joined.member_id
        return joined

    async def run(self) -> None:
        """Join, sync, commit, commit for an unknown generation, and leave."""
        await self.join("starting")
        joined = await self.join("need to re-join with the given member-id")
        me = {"group_id": GROUP, "member_id": self.member_id}
        mine = sync_group.request.SyncGroupRequestAssignment(
            member_id=self.member_id, assignment=b""
        )
        await self.request(
            sync_group,
            "SyncGroup",
            generation_id=joined.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(mine,),
            **me,
        )
        entry = offset_commit.request.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=42, committed_metadata=None
        )
        topic = offset_commit.request.OffsetCommitRequestTopic(name="t", partitions=(entry,))
        for generation in (joined.generation_id, 99):
            await self.request(
                offset_commit,
                "OffsetCommit",
                generation_id_or_member_epoch=generation,
                topics=(topic,),
                **me,
            )
        leaving = leave_group.request.MemberIdentity(
            member_id=self.member_id, group_instance_id=None, reason="the consumer is being closed"
        )
        await self.request(leave_group, "LeaveGroup", group_id=GROUP, members=(leaving,))


async def events_of_a_member(
    folder: Path | None, events: str | None = None, durability: Durability = "os"
) -> list[dict[str, Any]]:
    """The lines that a broker writes for one client until it is stopped."""
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    if events is not None:
        settings["kohort.events"] = events
    broker = Broker(BrokerConfig(settings), data_dir=folder, durability=durability)
    await broker.start("127.0.0.1", 0)
    try:
        async with Client(broker.port) as client:
            await client.run()
    finally:
        await broker.stop()
    files = sorted((folder / "events").glob("*.jsonl")) if folder else []
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


async def test_accepted_commits_are_events_only_with_all(
    tmp_path: Path,
) -> None:
    lines = await events_of_a_member(tmp_path, "all")
    (commit,) = (line for line in lines if line["type"] == "commit_accepted")
    assert (commit["generation"], commit["detail"]) == (1, {"t-0": "42"})


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
    """Without what differs between runs."""
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
    """The first cells of the table under this heading, without their backticks."""
    section = DOCS.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


async def test_the_docs_list_every_column_type_and_cause(tmp_path: Path) -> None:
    line = (await events_of_a_member(tmp_path))[0]
    assert rows("Columns") == list(line)
    assert sorted(rows("Types")) == sorted(EventType)
    assert rows("Causes") == [cause.name for cause in Cause]
    assert all(f"| `{cause.name}` | {cause} |" in DOCS for cause in Cause)
