"""The groups of world.py, and what becomes of each."""

from pathlib import Path

from .world import Out, Rows, Step, Story, at, log_ends, write

TOPICS = {"orders": 6, "pages": 4, "payments": 3, "exports": 2, "mails": 4}


def lake(path: Path, *, samples: bool = True) -> Path:
    """Writes them all."""
    rows: Rows = {}
    for make in (checkout, search, billing, nightly, mailer):
        make(rows)
    if samples:
        rows["bronze_log_end"] = list(log_ends(TOPICS))
    else:
        without_samples(rows)
    return write(path, rows)


def without_samples(rows: Rows) -> None:
    unknown = ("lag", "lag_ms", "trend", "log_end", "log_start", "end_lag", "max_lag", "total_lag")
    for table in ("gold_partition_status", "gold_group_status", "gold_partition_minute"):
        for row in rows[table]:
            row.update({name: None for name in (*unknown, "max_lag_ms") if name in row})
            if table == "gold_partition_status":
                row.update(status="UNKNOWN", status_burrow="UNKNOWN")


SLOW = """\
checkout-2 is too slow: it was thrown out of checkout 4 times in the last hour, because it did not \
poll for 300 s (max.poll.interval.ms), and came back after 95 s each time. Each exit and return \
is a rebalance: 8 of them, in which the group stood still for 176 s."""
SLOW_EVIDENCE = [
    "4 of 4 exits are of checkout-2 (/10.0.0.5), each after 300.2 s without a commit.",
    "orders-2 and orders-3, its own, lag by 71,900 records; the others by at most 348.",
]
SLOW_ADVICE = [
    "Make the processing of a batch faster, or a batch smaller (max.poll.records).",
    "Raise max.poll.interval.ms above the longest batch: 300000 is too little.",
    "Use the cooperative-sticky assignor: the others then go on while one rejoins.",
]
SILENT = "checkout-2 committed nothing for 300.2 s; its max.poll.interval.ms is 300000."
BACK = "checkout-2 came back 95 s after it was too slow to poll."


def checkout(rows: Rows) -> None:
    story = Story(rows, "checkout", "orders", 6)
    one, two, three = "checkout-1", "checkout-2", "checkout-3"
    all_three = {one: [0, 1], two: [2, 3], three: [4, 5]}
    steps = [
        Step("09:00:02", "MEMBER_JOINED", {one: [0, 1, 2, 3, 4, 5]}, one, "1 member came."),
        Step("09:00:08", "MEMBER_JOINED", all_three, two, "2 members came.", pause_ms=900),
    ]
    outs = []
    for life, kick in enumerate((14, 25, 36, 47), start=1):
        who, back = f"{two}/{life}" if life > 1 else two, f"{two}/{life + 1}"
        clock, again = f"09:{kick}:10", f"09:{kick + 1}:45"
        without = {one: [0, 1, 2], three: [3, 4, 5]}
        steps.append(Step(clock, "SLOW_POLL", without, who, SILENT, pause_ms=3100))
        outs.append(Out(clock, who, "SLOW_POLL", SILENT, 300_200, 95_000))
        shares = {one: [0, 1], back: [2, 3], three: [4, 5]}
        steps.append(Step(again, "MEMBER_JOINED", shares, back, BACK, pause_ms=41_000))
    story.generations(steps)
    story.exits(outs)

    def lag(partition: int, minute: int) -> int | None:
        if partition not in (2, 3):
            return 200 + 37 * ((minute * 7 + partition) % 5)
        return None if (minute - 9) % 11 < 5 and minute > 8 else 500 + 1400 * max(minute - 8, 0)

    story.commits(lag)
    story.status("ERR", "Stable", 8, 0.049)
    story.says(3, "SLOW_CONSUMER", SLOW, SLOW_EVIDENCE, SLOW_ADVICE)
    jump = {"from_offset": 31_000, "to_offset": 30_200, "jump": -800, "by": two}
    place = {"topic": "orders", "partition": 2, "log_offset": 3400, "ts": at("09:15:50")}
    story.add("gold_offset_jump", **place, **jump, kind="DUPLICATE_AFTER_REBALANCE")


def search(rows: Rows) -> None:
    story = Story(rows, "search", "pages", 4)
    steps = [Step("09:00:05", "MEMBER_JOINED", {"search-a": [0, 1], "search-b": [2, 3]})]
    outs = []
    for turn in range(12):
        clock = f"09:{40 + turn}:{(turn * 17) % 50:02}"
        who = "search-b" if turn < 2 else f"search-b/{turn // 2 + 1}"
        if turn % 2 == 0:
            says = "its session of 45 s ended 46.1 s after its last commit."
            steps.append(
                Step(
                    clock,
                    "SESSION_TIMEOUT",
                    {"search-a": [0, 1, 2, 3]},
                    who,
                    says,
                    "medium",
                    45_000,
                    1,
                )
            )
            outs.append(Out(clock, who, "SESSION_TIMEOUT", says, 46_100, 40_000))
        else:
            shares = {"search-a": [0, 1], f"search-b/{turn // 2 + 2}": [2, 3]}
            steps.append(Step(clock, "MEMBER_JOINED", shares, who, "1 member came.", "high", 2_000))
    story.generations(steps)
    story.exits(outs)
    story.commits(lambda partition, minute: 300 if minute < 40 else 300 + 400 * (minute - 39))
    story.status("WARN", "Stable", 12, 0.08)
    first, last = (story.rows["gold_rebalance"][-n]["synced_at"] for n in (12, 1))
    story.add(
        "gold_rebalance_storm",
        from_ts=first,
        to_ts=last,
        rebalances=18,
        distinct_members=8,
        pause_ms_total=282_000,
        dominant_cause="SESSION_TIMEOUT",
    )
    story.says(
        2,
        "REBALANCE_STORM",
        "search was rebalanced 18 times between 09:40 and 09:51, mostly because sessions expired.",
        ["6 generations never got an assignment."],
        ["Let session.timeout.ms be at least 3 × heartbeat.interval.ms."],
    )


def billing(rows: Rows) -> None:
    story = Story(rows, "billing", "payments", 3)
    story.generations([Step("09:00:04", "MEMBER_JOINED", {"billing-1": [0, 1, 2]})])
    story.commits(lambda partition, minute: 250 if minute < 38 else None)
    story.status("ERR", "Stable", 0, 0.0)
    story.says(
        3,
        "STUCK",
        "billing stands still: it has a member, and has committed nothing since 09:37:55, while "
        "22 minutes of records came.",
        ["payments-0, payments-1 and payments-2 are owned by billing-1, and their logs grow."],
        ["Look into billing-1 (/10.0.0.5): a thread dump says what it waits for."],
    )


def nightly(rows: Rows) -> None:
    story = Story(rows, "nightly", "exports", 2)
    story.generations(
        [
            Step("09:00:01", "MEMBER_JOINED", {"nightly": [0, 1]}),
            Step("09:20:00", "GROUP_EMPTIED", {}, "nightly", "nightly left.", pause_ms=None),
        ]
    )
    story.exits([Out("09:20:00", "nightly", "LEFT_CLEANLY", "nightly left 2 s after a commit.", 2)])
    story.commits(lambda partition, minute: 0 if minute < 20 else None)
    story.status("OK", "Empty", 1, 0.0)
    story.says(1, "EMPTY", "nightly is empty since 09:20:00. Its offsets expire in 6 days.")


def mailer(rows: Rows) -> None:
    story = Story(rows, "mailer", "mails", 4)
    steps = [Step("09:00:03", "MEMBER_JOINED", {"mailer-1": [0, 1], "mailer-2": [2, 3]})]
    story.generations(steps, "cooperative-sticky")
    story.commits(lambda partition, minute: 40 + 11 * ((minute + partition) % 4))
    story.status("OK", "Stable", 0, 0.0)
    story.says(0, "HEALTHY", "Nothing is wrong with mailer.")
