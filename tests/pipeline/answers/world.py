"""A lake by hand: five groups between nine and ten, each with a story that a page must tell.

`checkout` has one slow consumer that is thrown out again and again; `search` is in a storm; nobody
commits for `billing` any more; `nightly` is empty; all is well with `mailer`.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from kohort.pipeline.lake import write_batch

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOW = NINE + timedelta(hours=1)
MINUTES = 60
PRODUCED = 50  # records a second and partition
CLUSTER = "Wz6yhFZ1QUi4nJ5eDf2dNw"
REBALANCE_MS = 300_000
SESSION_MS = 45_000

Rows = dict[str, list[dict[str, Any]]]


def at(clock: str) -> datetime:
    """`09:12:30` of that day."""
    hour, minute, second = map(int, clock.split(":"))
    return NINE.replace(hour=hour, minute=minute, second=second)


class Step(NamedTuple):
    """A record of the group's metadata. `shares`: client, or client/life, -> its partitions."""

    clock: str
    cause: str
    shares: dict[str, list[int]]
    who: str = ""
    evidence: str = ""
    confidence: str = "high"
    pause_ms: int | None = None
    lost: int = 0


class Out(NamedTuple):
    """A member's end."""

    clock: str
    who: str
    cause: str
    evidence: str
    silence_ms: int
    back_after_ms: int | None = None


def client_of(who: str) -> str:
    client, _, life = who.rpartition("/")
    return client if life.isdigit() else who


def member_of(who: str) -> str:
    client = client_of(who)
    life = int(who[len(client) + 1 :] or 1)
    return f"{client}-{life:08x}-5f3e-4a7b-9c1d-2b8e6f40a913"


def of(group: str, **more: Any) -> dict[str, Any]:
    return {"cluster": CLUSTER, "group": group, **more}


class Story:
    """Makes a group's rows."""

    def __init__(self, rows: Rows, group: str, topic: str, partitions: int) -> None:
        self.rows, self.group, self.topic, self.partitions = rows, group, topic, partitions
        self.steps: list[Step] = []

    def add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(of(self.group, **row))

    def generations(self, steps: list[Step], protocol: str = "range") -> None:
        self.steps = steps
        before: dict[str, list[int]] = {}
        for number, step in enumerate(steps):
            self._generation(number, step, before, protocol)
            self._rebalance(number, step, before)
            before = step.shares
        self._ownership()

    def _generation(
        self, number: int, step: Step, before: dict[str, list[int]], protocol: str
    ) -> None:
        ids = {who: member_of(who) for who in (*before, *step.shares)}
        self.add(
            "silver_generation",
            offsets_partition=7,
            log_offset=1000 * number,
            record_kind="GENERATION" if step.shares else "EMPTY",
            generation=self._number(number),
            prev_generation=self._number(number - 1) if number else None,
            prev_log_offset=1000 * (number - 1) if number else None,
            joined_at=at(step.clock) - timedelta(milliseconds=20),
            synced_at=at(step.clock),
            members=len(step.shares),
            static_members=0,
            protocol_type="consumer",
            protocol=protocol if step.shares else None,
            leader=next((ids[who] for who in step.shares), None),
            topics=[self.topic] if step.shares else [],
            joined=[ids[who] for who in step.shares if who not in before],
            left=[ids[who] for who in before if who not in step.shares],
            replaced=[],
            kept=[ids[who] for who in before if who in step.shares],
            lost_generations=step.lost,
            member_list=[self._member(who, owned) for who, owned in step.shares.items()],
            history_complete=True,
        )

    def _number(self, number: int) -> int:
        return number + 1 + sum(step.lost for step in self.steps[: number + 1])

    def _member(self, who: str, owned: list[int]) -> dict[str, Any]:
        return {
            "member_id": member_of(who),
            "instance_id": None,
            "client_id": client_of(who),
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

    def _rebalance(self, number: int, step: Step, before: dict[str, list[int]]) -> None:
        had = {each: client_of(who) for who, owned in before.items() for each in owned}
        has = {each: client_of(who) for who, owned in step.shares.items() for each in owned}
        both = had.keys() & has.keys()
        moved = sum(had[each] != has[each] for each in both)
        self.add(
            "gold_rebalance",
            log_offset=1000 * number,
            generation=self._number(number),
            started_at_est=at(step.clock) - timedelta(milliseconds=step.pause_ms or 20),
            joined_at=at(step.clock) - timedelta(milliseconds=20),
            synced_at=at(step.clock),
            cause=step.cause,
            confidence=step.confidence,
            evidence=step.evidence,
            is_rebalance=True,
            member_id=member_of(step.who) if step.who else None,
            client_id=client_of(step.who) or None,
            members_before=len(before),
            members_after=len(step.shares),
            moved=moved,
            kept=len(both) - moved,
            revoked_then_returned=0,
            stickiness=1.0,
            pause_ms=step.pause_ms,
            sync_ms=20,
            lost_generations=step.lost,
        )

    def _ownership(self) -> None:
        for partition in range(self.partitions):
            spans: list[tuple[int, str]] = []  # from which step on, who
            for number, step in enumerate(self.steps):
                who = next((who for who, owned in step.shares.items() if partition in owned), "")
                if not spans or spans[-1][1] != who:
                    spans.append((number, who))
            for (number, who), after in zip(spans, [*spans[1:], None], strict=True):
                if who:
                    self._owned(partition, number, who, after[0] if after else None)

    def _owned(self, partition: int, number: int, who: str, until: int | None) -> None:
        self.add(
            "silver_ownership",
            topic=self.topic,
            partition=partition,
            member_id=member_of(who),
            client_id=client_of(who),
            client_host="/10.0.0.5",
            from_log_offset=1000 * number,
            to_log_offset=None if until is None else 1000 * until,
            from_ts=at(self.steps[number].clock),
            to_ts=None if until is None else at(self.steps[until].clock),
        )

    def exits(self, outs: list[Out]) -> None:
        for out in outs:
            steps = [n for n, step in enumerate(self.steps) if at(step.clock) >= at(out.clock)]
            number = steps[0]
            self.add(
                "gold_member_exit",
                log_offset=1000 * number,
                generation=self._number(number - 1),
                left_at=at(out.clock),
                member_id=member_of(out.who),
                client_id=client_of(out.who),
                client_host="/10.0.0.5",
                cause=out.cause,
                confidence="high",
                evidence=out.evidence,
                silence_ms=out.silence_ms,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                came_back_after_ms=out.back_after_ms,
            )

    def commits(self, lag: Callable[[int, int], int | None]) -> None:
        """`lag(partition, minute)`; None: no commit in that minute."""
        for partition in range(self.partitions):
            before = 0
            for minute in range(MINUTES):
                behind = lag(partition, minute)
                if behind is None:
                    continue
                offset = max(PRODUCED * 60 * (minute + 1) - behind, before)
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
                    end_lag=behind,
                    max_lag=behind,
                    lag_ms=behind * 1000 // PRODUCED,
                )
                before = offset
            self._status(partition, before)

    def _status(self, partition: int, committed: int) -> None:
        end = PRODUCED * 60 * MINUTES
        lag = max(end - committed, 0)
        last = self.steps[-1]
        who = next((who for who, owned in last.shares.items() if partition in owned), None)
        bad = lag > PRODUCED * 300
        self.add(
            "gold_partition_status",
            topic=self.topic,
            partition=partition,
            status=("STOP" if bad else "OK") if who else ("NO_OWNER" if lag else "OK"),
            status_burrow="STOP" if bad else "OK",
            status_reason="no commit for long" if bad else "all is well",
            committed=committed,
            log_start=0,
            log_end=end,
            lag=lag,
            lag_ms=lag * 1000 // PRODUCED,
            trend="GROWING" if bad else "FLAT",
            consume_rate=float(PRODUCED),
            produce_rate=float(PRODUCED),
            last_commit_ts=NOW - timedelta(seconds=5),
            complete=1.0,
            owner_member_id=member_of(who) if who else None,
            client_id=client_of(who) if who else None,
            client_host="/10.0.0.5" if who else None,
            as_of=NOW,
        )

    def status(self, status: str, state: str, rebalances: int, pause_share: float) -> None:
        mine = [row for row in self.rows["gold_partition_status"] if row["group"] == self.group]
        worst = max(mine, key=lambda row: row["lag"])
        self.add(
            "gold_group_status",
            state_inferred=state,
            status=status,
            status_burrow="OK" if status == "OK" else "ERR",
            total_lag=sum(row["lag"] for row in mine),
            max_lag=worst["lag"],
            max_lag_topic=self.topic,
            max_lag_partition=worst["partition"],
            max_lag_ms=worst["lag_ms"],
            members=len(self.steps[-1].shares),
            partitions=self.partitions,
            unassigned=0 if self.steps[-1].shares else self.partitions,
            rebalances_1h=rebalances,
            pause_share_1h=pause_share,
            protocol="range",
            as_of=NOW,
        )
        self.add("gold_group_lifecycle", first_seen=NINE, last_commit=NOW)

    def says(self, severity: int, verdict: str, text: str, *more: list[str]) -> None:
        evidence, advice = more or ([], [])
        about = {"severity": severity, "verdict": verdict, "text": text}
        self.add("gold_diagnosis", **about, evidence=evidence, advice=advice, as_of=NOW)


def log_ends(topics: dict[str, int]) -> Iterator[dict[str, Any]]:
    for topic, partitions in topics.items():
        for partition in range(partitions):
            for sample in range(2 * MINUTES + 1):
                end = PRODUCED * 30 * sample
                when = NINE + timedelta(seconds=30 * sample)
                place = {"cluster": CLUSTER, "topic": topic, "partition": partition}
                yield {**place, "log_start": 0, "log_end": end, "sampled_at": when}


def write(path: Path, rows: Rows) -> Path:
    write_batch(path, rows, positions={7: 9000}, cluster=CLUSTER, as_of=NOW)
    return path
