"""Random offsets logs with everything that a log may contain, and an oracle: silver_commit computed
by reading them record by record."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

CLUSTER = "c"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOPIC = "t"
SAMPLE_S = 30
TOLERANCE_S = 60
LAG_MS_MAX = 7 * 24 * 3_600_000

Row = dict[str, Any]
Sample = tuple[datetime, int]
Key = tuple[str, int]  # group, partition


class World(NamedTuple):
    """`records`: of all partitions of the offsets topic, as rows of bronze with their `kind`;
    `samples`: (time, log end) by partition of the topic."""

    records: list[Row]
    samples: dict[int, list[Sample]]


def draw(seed: int, *, offsets_partitions: int, records: int) -> World:
    rng = random.Random(seed)
    samples = {partition: list(_samples(rng)) for partition in range(3)}
    rows = [
        row for number in range(offsets_partitions) for row in _log(rng, number, records, samples)
    ]
    return World(rows, samples)


def _samples(rng: random.Random) -> Iterator[Sample]:
    end, grows = rng.randrange(50), rng.choice((0, 3, 40))
    # Ten minutes: of older samples only some are kept.
    for number in range(20):
        if rng.random() < 0.8:  # some samples are missing
            yield NOON + timedelta(seconds=SAMPLE_S * number), end
        end += grows * rng.randrange(4)


def _log(
    rng: random.Random, number: int, records: int, samples: dict[int, list[Sample]]
) -> Iterator[Row]:
    log_offset = rng.choice((0, 0, 0, 17))
    now = NOON
    groups = [f"g{number}-{of}" for of in range(2)]
    gappy = rng.random() < 0.3
    for _ in range(records):
        missing = rng.randrange(1, 4) if gappy and rng.random() < 0.1 else 0
        log_offset += missing
        now += timedelta(milliseconds=rng.randrange(9_000))
        row: Row = {
            "offsets_partition": number,
            "log_offset": log_offset,
            "append_ts": now,
            "leader_epoch_batch": 0,
            "producer_id": -1,
            "txn": False,
            "missing_before": missing,
            "tombstone": False,
            "control": False,
            **_record(rng, groups, now, samples),
        }
        yield row
        log_offset += 1


def _record(
    rng: random.Random, groups: list[str], now: datetime, samples: dict[int, list[Sample]]
) -> Row:
    kind = rng.random()
    group, partition = rng.choice(groups), rng.randrange(3)
    key = {"group": group, "topic": TOPIC, "partition": partition, "kind": "commit"}
    if kind < 0.08:
        return {**key, "tombstone": True}
    if kind < 0.2:
        return {"kind": "group", "group": group, **_generation(rng)}
    if kind < 0.3:
        ends = rng.randrange(2)
        return {
            "kind": "other",
            "producer_id": rng.randrange(2),
            "control": True,
            "key_version": ends,
        }
    lag = rng.choice((0, 0, 1, 30, 200))
    ends_before = [end for time, end in samples[partition] if time <= now]
    offset = max(0, (ends_before[-1] if ends_before else 0) + rng.randrange(3) - lag)
    commit = {**key, "tombstone": False, "offset": offset, "commit_ts": now}
    return {**commit, "producer_id": rng.randrange(2), "txn": True} if kind > 0.7 else commit


def _generation(rng: random.Random) -> Row:
    if rng.random() < 0.1:
        return {"tombstone": True, "members": []}
    partitions = [partition for partition in range(3) if rng.random() < 0.8]
    owners = [rng.choice("ab") for _ in partitions] if rng.random() < 0.9 else []
    members = [
        {
            "member_id": member,
            "instance_id": None,
            "client_id": f"client-{member}",
            "client_host": "/h",
            "rebalance_timeout_ms": 1,
            "session_timeout_ms": 1,
            "assigned": [
                {"topic": TOPIC, "partition": partition}
                for partition, owner in zip(partitions, owners, strict=False)
                if owner == member
            ],
        }
        for member in sorted(set(owners))
    ]
    return {"tombstone": False, "generation": rng.randrange(1, 90), "members": members}


class _Reader:
    """Reads one partition of the offsets topic record by record."""

    def __init__(self, samples: dict[int, list[Sample]]) -> None:
        self.samples = samples
        self.last_gap = -1
        self.generations: dict[str, Row] = {}
        self.latest: dict[Key, Row] = {}
        # Producer -> key -> (row of silver, whether it is in effect if committed).
        self.open: dict[int, dict[Key, tuple[Row, bool]]] = {}

    def read(self, row: Row) -> Iterator[Row]:
        if row["missing_before"]:
            self.last_gap = row["log_offset"]
        if row["kind"] == "group":
            self.generations[row["group"]] = row
        elif row["kind"] == "other":
            for key, (commit, counts) in self.open.pop(row["producer_id"], {}).items():
                if counts and row["key_version"] == 1:
                    yield self._commit_effective(key, commit)
        else:
            yield from self._commit(row)

    def _commit(self, row: Row) -> Iterator[Row]:
        key = (row["group"], row["partition"])
        commit = {**self._in_context(row), "last_gap": self.last_gap}
        if row["tombstone"]:
            for pending in self.open.values():
                pending.pop(key, None)
            prev = self.latest.pop(key, None)
            yield self._silver(commit, prev, "TOMBSTONE")
        elif row["producer_id"] >= 0:
            self.open.setdefault(row["producer_id"], {})[key] = (commit, True)
        else:
            yield self._commit_effective(key, commit)

    def _commit_effective(self, key: Key, commit: Row) -> Row:
        for pending in self.open.values():
            if key in pending and pending[key][0]["log_offset"] < commit["log_offset"]:
                pending[key] = (pending[key][0], False)
        prev = self.latest.get(key)
        self.latest[key] = commit
        if prev is None:
            return self._silver(commit, None, "FIRST")
        delta = commit["offset"] - prev["offset"]
        kind = "ADVANCE" if delta > 0 else "REWIND" if delta < 0 else "REPEAT"
        return self._silver(commit, prev, kind)

    def _in_context(self, row: Row) -> Row:
        generation = self.generations.get(row["group"], {"members": [None]})
        owners = [
            member["member_id"]
            for member in generation["members"]
            if member and {"topic": TOPIC, "partition": row["partition"]} in member["assigned"]
        ]
        lag, lag_ms = self._lag(row)
        return {
            "offsets_partition": row["offsets_partition"],
            "log_offset": row["log_offset"],
            "group": row["group"],
            "partition": row["partition"],
            "commit_ts": row["append_ts"],
            "offset": row.get("offset"),
            "generation": generation.get("generation"),
            "generation_log_offset": generation.get("log_offset"),
            "group_empty": not generation["members"],
            "owner_member_id": owners[-1] if owners else None,
            "lag": lag,
            "lag_ms": lag_ms,
        }

    def _lag(self, row: Row) -> tuple[int | None, int | None]:
        samples, offset, now = self.samples[row["partition"]], row.get("offset"), row["append_ts"]
        seen = [sample for sample in samples if sample[0] <= now]
        if offset is None or not seen or now - seen[-1][0] > timedelta(seconds=TOLERANCE_S):
            return None, None
        lag = max(0, seen[-1][1] - offset)
        if not lag:
            return 0, 0
        ends = sorted({end for _, end in samples})
        first_of = {end: min(time for time, of in samples if of == end) for end in ends}
        last_of = {end: max(time for time, of in samples if of == end) for end in ends}
        above = min(end for end in ends if end > offset)
        if ends[0] <= offset:
            below = max(end for end in ends if end <= offset)
        elif len(ends) > 1:
            below, above = ends[0], ends[1]
        else:
            return lag, None
        pace_ms = _ms(first_of[above] - last_of[below]) / (above - below)
        behind_ms = _ms(now - last_of[below]) - (offset - below) * pace_ms
        return lag, round(min(max(behind_ms, 0), LAG_MS_MAX))

    def _silver(self, commit: Row, prev: Row | None, kind: str) -> Row:
        row = {name: value for name, value in commit.items() if name != "last_gap"}
        tombstone = kind == "TOMBSTONE"
        return {
            **row,
            "kind": kind,
            "prev_offset": prev and prev["offset"],
            "prev_commit_ts": prev and prev["commit_ts"],
            "delta": None if prev is None or tombstone else commit["offset"] - prev["offset"],
            "gap_ms": None
            if prev is None or tombstone
            else _ms(commit["commit_ts"] - prev["commit_ts"]),
            "history_complete": (prev["log_offset"] if prev else -1) >= commit["last_gap"],
        }


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


class Expected(NamedTuple):
    silver: list[Row]
    latest: dict[tuple[int, str, int], int]
    open_transactions: int


def read(world: World) -> Expected:
    logs: dict[int, _Reader] = {}
    silver: list[Row] = []
    for row in world.records:
        number = row["offsets_partition"]
        if number not in logs:
            logs[number] = _Reader(world.samples)
            if row["log_offset"] > 0:
                logs[number].last_gap = row["log_offset"]
        silver.extend(logs[number].read(row))
    latest = {
        (number, *key): commit["offset"]
        for number, log in logs.items()
        for key, commit in log.latest.items()
    }
    open_transactions = sum(
        counts for log in logs.values() for each in log.open.values() for _, counts in each.values()
    )
    return Expected(silver, latest, open_transactions)
