"""A lake with five groups between 9:00 and 10:00.

`checkout` has a slow consumer, which is removed four times; `search` has a rebalance storm;
`billing` has not committed since 9:38; `nightly` is empty; `mailer` is healthy.
"""

from pathlib import Path

from .group_rows import Exit, GroupRows, Record, Rows, at, log_ends, write_lake

TOPICS = {"orders": 6, "pages": 4, "payments": 3, "exports": 2, "mails": 4}


def write(path: Path, *, samples: bool = True) -> Path:
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
