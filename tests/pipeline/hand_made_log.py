"""An offsets log of one partition, written by hand as rows of bronze: its story is known."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from kohort.log.records import Record
from kohort.pipeline.source.records import content_of

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOST = "/10.0.0.{}"


class M(NamedTuple):
    """A member: `who` is its client id and its host, `life` parts its member ids."""

    who: int
    parts: Sequence[int] = ()
    life: int = 1
    static: bool = False
    session_ms: int = 10_000
    rebalance_ms: int = 300_000
    owned: Sequence[int] | None = None

    @property
    def id(self) -> str:
        return f"m{self.who}-{self.life}"

    def row(self, topic: str) -> dict[str, Any]:
        return {
            "member_id": self.id,
            "instance_id": f"i{self.who}" if self.static else None,
            "client_id": f"c{self.who}",
            "client_host": HOST.format(self.who),
            "rebalance_timeout_ms": self.rebalance_ms,
            "session_timeout_ms": self.session_ms,
            "topics": [topic],
            "owned": None
            if self.owned is None
            else [{"topic": topic, "partition": part} for part in self.owned],
            "assigned": [{"topic": topic, "partition": part} for part in self.parts],
        }


class HandMadeLog:
    """Records in the order of the calls; `at` is in seconds since START."""

    def __init__(self, topic: str = "t", cluster: str = "c") -> None:
        self.topic, self.cluster = topic, cluster
        self.groups: list[dict[str, Any]] = []
        self.commits: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.next_offset = 0

    def _place(self, at: float) -> dict[str, Any]:
        self.next_offset += 1
        return {
            "cluster": self.cluster,
            "source": "hand",
            "offsets_partition": 0,
            "log_offset": self.next_offset - 1,
            "append_ts": START + timedelta(seconds=at),
            "leader_epoch_batch": 0,
            "producer_id": -1,
            "txn": False,
            "missing_before": 0,
            "tombstone": False,
        }

    def generation(
        self,
        group: str,
        at: float,
        number: int,
        *members: M,
        protocol: str = "range",
        join_s: float = 0.02,
        **more: Any,
    ) -> int:
        """Stored at `at`, joined a moment before; no members: the group is Empty."""
        row = self._place(at) | {
            "group": group,
            "generation": number,
            "protocol_type": "consumer" if number else "",
            "protocol": protocol if members else None,
            "leader": members[0].id if members else None,
            "state_ts": START + timedelta(seconds=at - join_s),
            "members": [member.row(self.topic) for member in members],
            "value_version": 3,
        }
        self.groups.append(row | more)
        return int(row["log_offset"])

    def tombstone(self, group: str, at: float) -> None:
        """Of the group; of its offsets: remove()."""
        self.groups.append(self._place(at) | {"group": group, "tombstone": True})

    def stored(self, at_ms: int, key: bytes, value: bytes | None) -> None:
        """A record as another log has it, of any kind, its time since 1970."""
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        row = self._place(0) | {"append_ts": at}
        content = content_of(Record(row["log_offset"], at_ms, key, value), control=False)
        of_kind = {"group": self.groups, "commit": self.commits, "other": self.others}
        of_kind[content.pop("kind")].append(row | content)

    def commit(self, group: str, at: float, offsets: Mapping[int, int]) -> None:
        for part, offset in offsets.items():
            self.commits.append(
                self._place(at)
                | {
                    "group": group,
                    "topic": self.topic,
                    "partition": part,
                    "offset": offset,
                    "commit_ts": START + timedelta(seconds=at),
                    "value_version": 3,
                }
            )

    def remove(self, group: str, at: float, parts: Sequence[int]) -> None:
        """Tombstones of offsets."""
        for part in parts:
            self.commits.append(
                self._place(at)
                | {"group": group, "topic": self.topic, "partition": part, "tombstone": True}
            )

    def consume(
        self,
        group: str,
        parts: Sequence[int],
        start: float,
        end: float,
        every: float = 5,
        rate: int = 10,
    ) -> None:
        """Commits of `parts`, `rate` messages a second behind which nothing waits."""
        at = start
        while at <= end:
            self.commit(group, at, {part: int(at * rate) for part in parts})
            at += every

    def produce(
        self, parts: Sequence[int], start: float, end: float, rate: int = 10, every: float = 10
    ) -> None:
        """Samples of the log's end."""
        at = start
        while at <= end:
            for part in parts:
                self.ends.append(
                    {
                        "cluster": self.cluster,
                        "topic": self.topic,
                        "partition": part,
                        "log_start": 0,
                        "log_end": int(at * rate),
                        "sampled_at": START + timedelta(seconds=at),
                    }
                )
            at += every

    def by_time(self) -> "HandMadeLog":
        """Groups written down one after the other as a broker would have: by the clock."""
        records = sorted(self._records(), key=lambda row: row["append_ts"])
        for place, row in enumerate(records):
            row["log_offset"] = place
        for rows in (self.groups, self.commits, self.others):
            rows.sort(key=lambda row: row["log_offset"])
        return self

    def _records(self) -> list[dict[str, Any]]:
        return [*self.groups, *self.commits, *self.others]

    def place_at(self, at: float) -> int:
        """The offset of the first record from then on."""
        time = START + timedelta(seconds=at)
        return min(row["log_offset"] for row in self._records() if row["append_ts"] >= time)

    def bronze(
        self, from_offset: int = 0, to_offset: int | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """The rows of bronze between two log offsets, and samples of their time."""
        end = self.next_offset if to_offset is None else to_offset

        def within(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [row for row in rows if from_offset <= row["log_offset"] < end]

        def time_of(offset: int) -> datetime:
            times = (row["append_ts"] for row in self._records() if row["log_offset"] < offset)
            return max(times, default=START)

        since, until = time_of(from_offset), time_of(end)
        ends = [
            row
            for row in self.ends
            if (row["sampled_at"] > since or not from_offset)
            and (row["sampled_at"] <= until or end == self.next_offset)
        ]
        return {
            "bronze_group": within(self.groups),
            "bronze_commit": within(self.commits),
            "bronze_other": within(self.others),
            "bronze_log_end": ends,
        }
