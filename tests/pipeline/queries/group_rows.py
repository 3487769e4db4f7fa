"""Builds rows of groups between 9:00 and 10:00 in all tables that are queried."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from lake_rows import write_batch

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOW = NINE + timedelta(hours=1)
MINUTES = 60
PRODUCED = 50  # records a second and partition
CLUSTER = "Wz6yhFZ1QUi4nJ5eDf2dNw"
REBALANCE_MS = 300_000
SESSION_MS = 45_000

Rows = dict[str, list[dict[str, Any]]]


def at(clock: str) -> datetime:
    """`clock`: such as 09:12:30."""
    hour, minute, second = map(int, clock.split(":"))
    return NINE.replace(hour=hour, minute=minute, second=second)


def ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


class Record(NamedTuple):
    """A GroupMetadata record. `assigned`: partitions by member. A member is named by its client
    id, and `client/2` is the client after it rejoined with a new member id."""

    clock: str
    cause: str
    assigned: dict[str, list[int]]
    member: str = ""
    evidence: str = ""
    confidence: str = "high"
    pause_ms: int | None = None
    lost: int = 0


class Exit(NamedTuple):
    """A member that left."""

    clock: str
    member: str
    cause: str
    evidence: str
    silence_ms: int
    back_after_ms: int | None = None


def client_of(member: str) -> str:
    client, _, incarnation = member.rpartition("/")
    return client if incarnation.isdigit() else member


def id_of(member: str) -> str:
    client = client_of(member)
    incarnation = int(member[len(client) + 1 :] or 1)
    return f"{client}-{incarnation:08x}-5f3e-4a7b-9c1d-2b8e6f40a913"


def group_row(group: str, **more: Any) -> dict[str, Any]:
    return {"cluster": CLUSTER, "group": group, **more}


class GroupRows:
    def __init__(self, rows: Rows, group: str, topic: str, partitions: int) -> None:
        self.rows, self.group, self.topic, self.partitions = rows, group, topic, partitions
        self.records: list[Record] = []

    def add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(group_row(self.group, **row))

    def generations(self, records: list[Record], protocol: str = "range") -> None:
        self.records = records
        before: dict[str, list[int]] = {}
        for number, record in enumerate(records):
            self._generation(number, record, before, protocol)
            self._rebalance(number, record, before)
            before = record.assigned
        self._ownership()

    def _generation(
        self, number: int, record: Record, before: dict[str, list[int]], protocol: str
    ) -> None:
        ids = {member: id_of(member) for member in (*before, *record.assigned)}
        self.add(
            "silver_generation",
            offsets_partition=7,
            log_offset=1000 * number,
            record_kind="GENERATION" if record.assigned else "EMPTY",
            generation=self._number(number),
            prev_generation=self._number(number - 1) if number else None,
            prev_log_offset=1000 * (number - 1) if number else None,
            joined_at=at(record.clock) - timedelta(milliseconds=20),
            synced_at=at(record.clock),
            members=len(record.assigned),
            static_members=0,
            protocol_type="consumer",
            protocol=protocol if record.assigned else None,
            leader=next((ids[member] for member in record.assigned), None),
            topics=[self.topic] if record.assigned else [],
            joined=[ids[member] for member in record.assigned if member not in before],
            left=[ids[member] for member in before if member not in record.assigned],
            replaced=[],
            kept=[ids[member] for member in before if member in record.assigned],
            lost_generations=record.lost,
            member_list=[self._member(member, owned) for member, owned in record.assigned.items()],
            history_complete=True,
        )

    def _number(self, number: int) -> int:
        return number + 1 + sum(record.lost for record in self.records[: number + 1])

    def _member(self, member: str, owned: list[int]) -> dict[str, Any]:
        return {
            "member_id": id_of(member),
            "instance_id": None,
            "client_id": client_of(member),
            "client_host": "/10.0.0.5",
            "rebalance_timeout_ms": REBALANCE_MS,
            "session_timeout_ms": SESSION_MS,
            "topics": [self.topic],
            "owned": None,
            "sub_generation": None,
            "rack": None,
            "assigned": [{"topic": self.topic, "partition": each} for each in owned],
            "raw_subscription": None,
        }

    def _rebalance(self, number: int, record: Record, before: dict[str, list[int]]) -> None:
        had = {each: client_of(member) for member, owned in before.items() for each in owned}
        has = {
            each: client_of(member) for member, owned in record.assigned.items() for each in owned
        }
        both = had.keys() & has.keys()
        moved = sum(had[each] != has[each] for each in both)
        self.add(
            "gold_rebalance",
            log_offset=1000 * number,
            generation=self._number(number),
            started_at_est=at(record.clock) - timedelta(milliseconds=record.pause_ms or 20),
            joined_at=at(record.clock) - timedelta(milliseconds=20),
            synced_at=at(record.clock),
            cause=record.cause,
            confidence=record.confidence,
            evidence=record.evidence,
            is_rebalance=True,
            member_id=id_of(record.member) if record.member else None,
            client_id=client_of(record.member) or None,
            members_before=len(before),
            members_after=len(record.assigned),
            moved=moved,
            kept=len(both) - moved,
            revoked_then_returned=0,
            stickiness=1.0,
            pause_ms=record.pause_ms,
            sync_ms=20,
            lost_generations=record.lost,
        )

    def _ownership(self) -> None:
        for partition in range(self.partitions):
            spans: list[tuple[int, str]] = []  # first record, owner
            for number, record in enumerate(self.records):
                member = next(
                    (member for member, owned in record.assigned.items() if partition in owned), ""
                )
                if not spans or spans[-1][1] != member:
                    spans.append((number, member))
            for (number, member), after in zip(spans, [*spans[1:], None], strict=True):
                if member:
                    self._owned(partition, number, member, after[0] if after else None)

    def _owned(self, partition: int, number: int, member: str, until: int | None) -> None:
        self.add(
            "silver_ownership",
            topic=self.topic,
            partition=partition,
            member_id=id_of(member),
            client_id=client_of(member),
            client_host="/10.0.0.5",
            from_log_offset=1000 * number,
            to_log_offset=None if until is None else 1000 * until,
            from_ts=at(self.records[number].clock),
            to_ts=None if until is None else at(self.records[until].clock),
        )

    def exits(self, exits: list[Exit]) -> None:
        for exit_ in exits:
            number = next(
                number
                for number, record in enumerate(self.records)
                if at(record.clock) >= at(exit_.clock)
            )
            self.add(
                "gold_member_exit",
                log_offset=1000 * number,
                generation=self._number(number - 1),
                left_at=at(exit_.clock),
                member_id=id_of(exit_.member),
                client_id=client_of(exit_.member),
                client_host="/10.0.0.5",
                cause=exit_.cause,
                confidence="high",
                evidence=exit_.evidence,
                silence_ms=exit_.silence_ms,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                came_back_after_ms=exit_.back_after_ms,
            )

    def commits(self, lag: Callable[[int, int], int | None]) -> None:
        """`lag(partition, minute)`; None: no commit in that minute."""
        for partition in range(self.partitions):
            before = 0
            for minute in range(MINUTES):
                records_behind = lag(partition, minute)
                if records_behind is None:
                    continue
                offset = max(PRODUCED * 60 * (minute + 1) - records_behind, before)
                self.add(
                    "gold_partition_minute",
                    topic=self.topic,
                    partition=partition,
                    minute=NINE + timedelta(minutes=minute),
                    commits=12,
                    advanced=12,
                    repeats=0,
                    rewinds=0,
                    consumed=offset - before,
                    last_offset=offset,
                    last_commit_ts=NINE + timedelta(minutes=minute, seconds=55),
                    max_gap_ms=5000,
                    end_lag=records_behind,
                    max_lag=records_behind,
                    lag_ms=records_behind * 1000 // PRODUCED,
                )
                before = offset
            self._status(partition, before)

    def _status(self, partition: int, committed: int) -> None:
        end = PRODUCED * 60 * MINUTES
        lag = max(end - committed, 0)
        last = self.records[-1]
        member = next(
            (member for member, owned in last.assigned.items() if partition in owned), None
        )
        is_behind = lag > PRODUCED * 300
        self.add(
            "gold_partition_status",
            topic=self.topic,
            partition=partition,
            status=("STOP" if is_behind else "OK") if member else ("NO_OWNER" if lag else "OK"),
            status_burrow="STOP" if is_behind else "OK",
            status_reason="no commit for a long time" if is_behind else "the lag is constant",
            committed=committed,
            log_start=0,
            log_end=end,
            lag=lag,
            lag_ms=lag * 1000 // PRODUCED,
            trend="GROWING" if is_behind else "FLAT",
            consume_rate=float(PRODUCED),
            produce_rate=float(PRODUCED),
            last_commit_ts=NOW - timedelta(seconds=5),
            complete=1.0,
            owner_member_id=id_of(member) if member else None,
            client_id=client_of(member) if member else None,
            client_host="/10.0.0.5" if member else None,
            as_of=NOW,
        )

    def status(self, status: str, state: str, rebalances: int, pause_share: float) -> None:
        rows = [row for row in self.rows["gold_partition_status"] if row["group"] == self.group]
        worst = max(rows, key=lambda row: row["lag"])
        self.add(
            "gold_group_status",
            state_inferred=state,
            status=status,
            status_burrow="OK" if status == "OK" else "ERR",
            total_lag=sum(row["lag"] for row in rows),
            max_lag=worst["lag"],
            max_lag_topic=self.topic,
            max_lag_partition=worst["partition"],
            max_lag_ms=worst["lag_ms"],
            members=len(self.records[-1].assigned),
            partitions=self.partitions,
            unassigned=0 if self.records[-1].assigned else self.partitions,
            rebalances_1h=rebalances,
            pause_share_1h=pause_share,
            protocol="range",
            as_of=NOW,
        )
        self.add("gold_group_lifecycle", first_seen=NINE, last_commit=NOW)

    def diagnosis(self, severity: int, verdict: str, text: str, *more: list[str]) -> None:
        evidence, advice = more or ([], [])
        row = {"severity": severity, "verdict": verdict, "text": text}
        self.add("gold_diagnosis", **row, evidence=evidence, advice=advice, as_of=NOW)


def log_ends(topics: dict[str, int]) -> Iterator[dict[str, Any]]:
    for topic, partitions in topics.items():
        for partition in range(partitions):
            for sample in range(2 * MINUTES + 1):
                end = PRODUCED * 30 * sample
                sampled_at = NINE + timedelta(seconds=30 * sample)
                tp = {"cluster": CLUSTER, "topic": topic, "partition": partition}
                yield {**tp, "log_start": 0, "log_end": end, "sampled_at": sampled_at}


def write_lake(path: Path, rows: Rows) -> Path:
    write_batch(path, rows, positions={7: 9000}, cluster=CLUSTER, as_of=NOW)
    return path
