"""Lakes of rows in memory: batches of any rows, rows of groups between 9:00 and 10:00 in all tables
that are queried, and a sample lake.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from kohort.pipeline.lake.schema import table_of
from kohort.pipeline.lake.writer import Writer

Rows = dict[str, list[dict[str, Any]]]
"""By table."""


def write_batch(
    path: Path | str,
    tables: Mapping[str, pa.Table | Sequence[Mapping[str, Any]]],
    *,
    cluster: str = "test",
    positions: Mapping[int, int] | None = None,
    as_of: datetime | None = None,
) -> int:
    """Write one batch, creating the lake if needed; returns the batch id."""
    with Writer(path) as writer:
        for name, rows in tables.items():
            writer.write(name, rows if isinstance(rows, pa.Table) else from_dicts(name, rows))
        before = writer.manifest
        return writer.commit(
            cluster=cluster,
            positions={**before.positions, **(positions or {})},
            inputs=before.inputs,
            as_of=as_of or before.as_of,
        ).batch_id


def from_dicts(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Columns that a row lacks are null; unknown columns are strings, for the writer to reject."""
    fields = [field.with_nullable(True) for field in table_of(table).schema]
    unknown = {name for row in rows for name in row} - {field.name for field in fields}
    fields += [pa.field(name, pa.string()) for name in sorted(unknown)]
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))


# --- rows of groups

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOW = NINE + timedelta(hours=1)
MINUTES = 60
PRODUCED = 50  # records a second and partition
CLUSTER = "Wz6yhFZ1QUi4nJ5eDf2dNw"
REBALANCE_MS = 300_000
SESSION_MS = 45_000


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


def client(member: str) -> dict[str, str]:
    return {"member_id": id_of(member), "client_id": client_of(member), "client_host": "/10.0.0.5"}


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
            members=len(record.assigned),
            static_members=0,
            protocol=protocol if record.assigned else None,
            joined=[ids[member] for member in record.assigned if member not in before],
            left=[ids[member] for member in before if member not in record.assigned],
            member_list=[self._member(member, owned) for member, owned in record.assigned.items()],
            history_complete=True,
        )

    def _number(self, number: int) -> int:
        return number + 1 + sum(record.lost for record in self.records[: number + 1])

    def _member(self, member: str, owned: list[int]) -> dict[str, Any]:
        return {
            **client(member),
            "instance_id": None,
            "rebalance_timeout_ms": REBALANCE_MS,
            "session_timeout_ms": SESSION_MS,
            "assigned": [{"topic": self.topic, "partition": each} for each in owned],
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
            **client(member),
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
                **client(exit_.member),
                cause=exit_.cause,
                confidence="high",
                evidence=exit_.evidence,
                silence_ms=exit_.silence_ms,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                rejoined_after_ms=exit_.back_after_ms,
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
                    end_lag=records_behind,
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
            log_end=end,
            lag=lag,
            lag_ms=lag * 1000 // PRODUCED,
            trend="GROWING" if is_behind else "FLAT",
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


# --- a sample lake
#
# `checkout` has a slow consumer, which is removed four times; `search` has a rebalance storm;
# `billing` has not committed since 9:38; `nightly` is empty; `mailer` is healthy.

TOPICS = {"orders": 6, "pages": 4, "payments": 3, "exports": 2, "mails": 4}


def write_sample_lake(path: Path, *, samples: bool = True) -> Path:
    rows: Rows = {}
    for add_group in (checkout, search, billing, nightly, mailer):
        add_group(rows)
    if samples:
        rows["bronze_log_end"] = list(log_ends(TOPICS))
    else:
        remove_lag(rows)
    return write_lake(path, rows)


def remove_lag(rows: Rows) -> None:
    unknown = (
        *("lag", "lag_ms", "trend", "log_end", "log_start"),
        *("end_lag", "max_lag", "total_lag", "max_lag_ms"),
    )
    for table in ("gold_partition_status", "gold_group_status", "gold_partition_minute"):
        for row in rows[table]:
            row.update({name: None for name in unknown if name in row})
            if table == "gold_partition_status":
                row.update(status="UNKNOWN", status_burrow="UNKNOWN")


SLOW = """\
checkout-2 is too slow: it was removed from checkout 4 times in the last hour, because it did not \
poll for 300 s (max.poll.interval.ms), and rejoined after 95 s each time. Each exit and rejoin \
is a rebalance: 8 of them, in which consumption paused for 176 s."""
SLOW_EVIDENCE = [
    "4 of 4 exits are of checkout-2 (/10.0.0.5), each after 300.2 s without a commit.",
    "Its partitions orders-2 and orders-3 lag by 71,900 records; the others by at most 348.",
]
SLOW_ADVICE = [
    "Make the processing of a batch faster, or a batch smaller (max.poll.records).",
    "Raise max.poll.interval.ms above the longest batch: 300000 is too short.",
    "Use the cooperative-sticky assignor: the others then continue while one rejoins.",
]
SILENT = "checkout-2 committed nothing for 300.2 s; its max.poll.interval.ms is 300000."
BACK = "checkout-2 rejoined 95 s after it exceeded its poll interval."


def checkout(rows: Rows) -> None:
    group = GroupRows(rows, "checkout", "orders", 6)
    one, two, three = "checkout-1", "checkout-2", "checkout-3"
    all_three = {one: [0, 1], two: [2, 3], three: [4, 5]}
    records = [
        Record("09:00:02", "MEMBER_JOINED", {one: [0, 1, 2, 3, 4, 5]}, one, "1 member joined."),
        Record("09:00:08", "MEMBER_JOINED", all_three, two, "2 members joined.", pause_ms=900),
    ]
    exits = []
    for incarnation, minute in enumerate((14, 25, 36, 47), start=1):
        slow = f"{two}/{incarnation}" if incarnation > 1 else two
        again = f"{two}/{incarnation + 1}"
        left_at, rejoined_at = f"09:{minute}:10", f"09:{minute + 1}:45"
        without = {one: [0, 1, 2], three: [3, 4, 5]}
        records.append(Record(left_at, "SLOW_POLL", without, slow, SILENT, pause_ms=3100))
        exits.append(Exit(left_at, slow, "SLOW_POLL", SILENT, 300_200, 95_000))
        assigned = {one: [0, 1], again: [2, 3], three: [4, 5]}
        rejoined = Record(rejoined_at, "MEMBER_JOINED", assigned, again, BACK, pause_ms=41_000)
        records.append(rejoined)
    group.generations(records)
    group.exits(exits)

    def lag(partition: int, minute: int) -> int | None:
        if partition not in (2, 3):
            return 200 + 37 * ((minute * 7 + partition) % 5)
        return None if (minute - 9) % 11 < 5 and minute > 8 else 500 + 1400 * max(minute - 8, 0)

    group.commits(lag)
    group.status("ERR", "Stable", 8, 0.049)
    group.diagnosis(3, "SLOW_CONSUMER", SLOW, SLOW_EVIDENCE, SLOW_ADVICE)
    jump = {"from_offset": 31_000, "to_offset": 30_200, "jump": -800, "by": two}
    position = {"topic": "orders", "partition": 2, "log_offset": 3400, "ts": at("09:15:50")}
    group.add("gold_offset_jump", **position, **jump, kind="DUPLICATE_AFTER_REBALANCE")


def search(rows: Rows) -> None:
    group = GroupRows(rows, "search", "pages", 4)
    records = [Record("09:00:05", "MEMBER_JOINED", {"search-a": [0, 1], "search-b": [2, 3]})]
    exits = []
    for turn in range(12):
        clock = f"09:{40 + turn}:{(turn * 17) % 50:02}"
        member = "search-b" if turn < 2 else f"search-b/{turn // 2 + 1}"
        if turn % 2 == 0:
            evidence = "its session of 45 s ended 46.1 s after its last commit."
            without = {"search-a": [0, 1, 2, 3]}
            records.append(
                Record(
                    clock, "SESSION_TIMEOUT", without, member, evidence, "medium", 45_000, lost=1
                )
            )
            exits.append(Exit(clock, member, "SESSION_TIMEOUT", evidence, 46_100, 40_000))
        else:
            assigned = {"search-a": [0, 1], f"search-b/{turn // 2 + 2}": [2, 3]}
            records.append(
                Record(clock, "MEMBER_JOINED", assigned, member, "1 member joined.", pause_ms=2_000)
            )
    group.generations(records)
    group.exits(exits)
    group.commits(lambda partition, minute: 300 if minute < 40 else 300 + 400 * (minute - 39))
    group.status("WARN", "Stable", 12, 0.08)
    first, last = (group.rows["gold_rebalance"][-n]["synced_at"] for n in (12, 1))
    group.add(
        "gold_rebalance_storm",
        from_ts=first,
        to_ts=last,
        rebalances=18,
        distinct_members=8,
        pause_ms_total=282_000,
        dominant_cause="SESSION_TIMEOUT",
    )
    group.diagnosis(
        2,
        "REBALANCE_STORM",
        "search rebalanced 18 times between 09:40 and 09:51, mostly because sessions expired.",
        ["6 generations never got an assignment."],
        ["Set session.timeout.ms to at least 3 × heartbeat.interval.ms."],
    )


def billing(rows: Rows) -> None:
    group = GroupRows(rows, "billing", "payments", 3)
    group.generations([Record("09:00:04", "MEMBER_JOINED", {"billing-1": [0, 1, 2]})])
    group.commits(lambda partition, minute: 250 if minute < 38 else None)
    group.status("ERR", "Stable", 0, 0.0)
    group.diagnosis(
        3,
        "STUCK",
        "billing is stuck: it has a member, and has committed nothing since 09:37:55, although "
        "its topic grew for 22 minutes.",
        ["payments-0, payments-1 and payments-2 are owned by billing-1, and their logs grow."],
        ["Take a thread dump of billing-1 (/10.0.0.5) to see where it is blocked."],
    )


def nightly(rows: Rows) -> None:
    group = GroupRows(rows, "nightly", "exports", 2)
    group.generations(
        [
            Record("09:00:01", "MEMBER_JOINED", {"nightly": [0, 1]}),
            Record("09:20:00", "GROUP_EMPTIED", {}, "nightly", "nightly left."),
        ]
    )
    group.exits(
        [Exit("09:20:00", "nightly", "LEFT_CLEANLY", "nightly left 2 s after a commit.", 2)]
    )
    group.commits(lambda partition, minute: 0 if minute < 20 else None)
    group.status("OK", "Empty", 1, 0.0)
    group.diagnosis(1, "EMPTY", "nightly is empty since 09:20:00. Its offsets expire in 6 days.")


def mailer(rows: Rows) -> None:
    group = GroupRows(rows, "mailer", "mails", 4)
    records = [Record("09:00:03", "MEMBER_JOINED", {"mailer-1": [0, 1], "mailer-2": [2, 3]})]
    group.generations(records, "cooperative-sticky")
    group.commits(lambda partition, minute: 40 + 11 * ((minute + partition) % 4))
    group.status("OK", "Stable", 0, 0.0)
    group.diagnosis(0, "HEALTHY", "mailer is healthy.")
