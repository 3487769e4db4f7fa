"""`kohort why`, `timeline`, `lag` and `storms`: their output for people and for programs."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from kohort.cli.main import main
from kohort.pipeline.diagnosis.rows import (
    Diagnosis,
    PartitionStatus,
    Storm,
    TimelineEntry,
)
from kohort.pipeline.diagnosis.rows import (
    fields as fields_of,
)
from lake_builder import CLUSTER, NOW, Rows, group_row, mailer, write_batch, write_lake

Query = Callable[..., str]


@pytest.fixture
def query(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Runs a command on the sample lake in a terminal of 80 columns and returns its output."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: str) -> str:
        assert main([*arguments, "--lake", str(lake)]) == 0
        output = capsys.readouterr()
        assert output.err == ""
        return output.out

    return run


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def test_why_names_the_slow_member_with_evidence_and_advice(query: Query) -> None:
    output = query("why", "checkout")
    text = " ".join(output.split())
    assert output.startswith("checkout: slow consumer (error), as of 2026-03-02 10:00:00 UTC\n")
    assert "it was removed from checkout 4 times in the last hour" in text
    assert text.index("Evidence - 4 of 4 exits") < text.index("What to do - Make the proc")
    assert "09:14:10 3 3 → 2 3.1 s poll interval exceeded - checkout-2 (silent 5 min" in text


@pytest.mark.parametrize("command", ["why", "timeline"])
@pytest.mark.parametrize("group", ["checkout", "search", "billing", "nightly", "mailer"])
def test_output_for_people_fits_80_columns(query: Query, command: str, group: str) -> None:
    assert max(map(len, query(command, group).splitlines())) <= 80


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("silver_generation", ("timeline", "mailer")),
        ("gold_group_status", ("report", "--out", "p")),
    ],
)
def test_a_lake_with_rows_of_a_batch_in_some_tables_only_is_an_error(
    missing: str,
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows: Rows = {}
    mailer(rows)
    del rows[missing]
    write_lake(tmp_path / "lake", rows)
    assert main([*command, "--lake", "lake"]) == 2
    assert f"{missing} is damaged (no row for " in capsys.readouterr().err


def test_timeline_shows_members_that_joined_and_left_and_moved_partitions(query: Query) -> None:
    lines = query("timeline", "checkout", "--last", "2").splitlines()
    assert lines[0] == "checkout: 10 rebalances, 2026-03-02 09:00:02 to 2026-03-02 09:48:45 UTC"
    assert lines[2:] == [
        "8 earlier changes not shown",
        "",
        "TIME (UTC)  GEN  MEMBERS     PAUSE  CAUSE",
        "--- 2026-03-02",
        "09:47:10      9  3 → 2        3.1 s  poll interval exceeded",
        "              - checkout-2 (silent 5 min, back after 1 min 35 s)",
        "              checkout-2 committed nothing for 300.2 s; its max.poll.interval.ms",
        "              is 300000; 2 of 6 partitions moved",
        "09:48:45     10  2 → 3       41.0 s  member joined",
        "              + checkout-2",
        "              checkout-2 rejoined 95 s after it exceeded its poll interval; 2 of",
        "              6 partitions moved",
    ]


def test_timeline_shows_a_medium_confidence_and_lost_generations(query: Query) -> None:
    output = query("timeline", "search")
    assert "session expired (medium)" in output
    assert "1 generation before this one never synced." in output


def test_lag_is_shown_in_records_and_in_time_with_the_owner(query: Query) -> None:
    first, *lines = [" ".join(line.split()) for line in query("lag", "checkout").splitlines()]
    assert first == "TOPIC PARTITION STATUS LAG TIME-LAG TREND OWNER"
    assert lines[2] == "orders 2 STOP 71,900 23 min 58 s growing checkout-2 @ 10.0.0.5"
    all_groups = query("lag").splitlines()
    assert all_groups[0].startswith("GROUP     TOPIC     PARTITION")
    assert len(all_groups) == 1 + 6 + 4 + 3 + 2 + 4 + 2
    assert "NO_OWNER  120,000" in all_groups[14]


def test_an_unknown_lag_is_a_dash_and_explained(
    lake_without_samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["lag", "billing", "--lake", str(lake_without_samples)]
    assert main(command) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[1].split()[:5] == ["payments", "0", "UNKNOWN", "-", "-"]
    assert "lag is unknown: the lake has no samples of log ends" in output.err
    assert main([*command, "--format", "json"]) == 0
    assert {row["lag"] for row in json.loads(capsys.readouterr().out)} == {None}


def test_storms_are_listed_or_reported_as_none(query: Query) -> None:
    storm = " ".join(query("storms").splitlines()[1].split())
    assert storm == "search 2026-03-02 09:40:00 11 min 37 s 18 8 4 min 42 s session expired"
    assert query("storms", "checkout") == "no rebalance storms in checkout\n"


FIELDS = {
    ("why", "checkout"): [*fields_of(Diagnosis), "rebalances"],
    ("timeline", "checkout"): fields_of(TimelineEntry),
    ("lag",): fields_of(PartitionStatus),
    ("storms",): fields_of(Storm),
}


@pytest.mark.parametrize(("command", "fields"), FIELDS.items(), ids=lambda each: each[0])
def test_json_and_csv_have_the_same_fields_and_values(
    query: Query, command: tuple[str, ...], fields: list[str]
) -> None:
    json_rows = json.loads(query(*command, "--format", "json"))
    csv_rows = list(csv.DictReader(io.StringIO(query(*command, "--format", "csv"))))
    assert len(json_rows) == len(csv_rows) > 0
    for row, texts in zip(json_rows, csv_rows, strict=True):
        assert (list(row), list(texts)) == (fields, fields)
        assert texts == {name: csv_text(value) for name, value in row.items()}


def csv_text(value: Any) -> str:
    if isinstance(value, list | bool):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def test_times_are_iso_8601_with_their_zone(query: Query) -> None:
    (storm,) = json.loads(query("storms", "--format", "json"))
    assert storm["from_ts"] == "2026-03-02T09:40:00.000Z"
    assert datetime.fromisoformat(storm["to_ts"]).utcoffset() is not None


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("chekout", "did you mean checkout?"),
        ("CHECKOUT", "did you mean checkout?"),
        ("bill", "did you mean billing?"),
        ("zzz", "it has billing, checkout, mailer, nightly, search."),
    ],
)
@pytest.mark.parametrize("command", ["why", "timeline", "lag", "storms"])
def test_an_unknown_group_is_an_error_with_similar_names(
    lake: Path, capsys: pytest.CaptureFixture[str], command: str, typed: str, hint: str
) -> None:
    error = error_of(capsys, command, typed, "--lake", str(lake))
    assert error == f"kohort {command}: the lake has no group {typed}; {hint}\n"


def test_a_folder_without_a_lake_is_an_error_that_names_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        error = error_of(capsys, "lag", "--lake", str(folder))
        assert str(folder) in error
        assert "kohort pipeline run" in error


def test_a_lake_of_an_empty_log_has_no_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_batch(tmp_path / "lake", {}, as_of=NOW)
    error = error_of(capsys, "why", "checkout", "--lake", str(tmp_path / "lake"))
    assert "the log was empty" in error
    assert main(["lag", "--lake", str(tmp_path / "lake")]) == 0
    assert capsys.readouterr().out == "no group has committed offsets\n"


def test_queries_do_not_import_spark(lake: Path) -> None:
    program = (
        "import sys; from kohort.cli.main import main; "
        f"code = main(['why', 'checkout', '--lake', {str(lake)!r}]); "
        "print(code, {'pyspark', 'py4j', 'kio', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0 set()", "")


def test_control_characters_in_names_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = "evil\x1b[2Jgroup\r"
    diagnosis = group_row(group, severity=0, verdict="HEALTHY", text=f"{group} is healthy.")
    diagnosis |= {"evidence": [], "advice": [], "as_of": NOW}
    lifecycle = group_row(group, first_seen=NOW)
    tables = {"gold_diagnosis": [diagnosis], "gold_group_lifecycle": [lifecycle]}
    write_batch(tmp_path / "lake", tables, cluster=CLUSTER, as_of=NOW)
    assert main(["why", group, "--lake", str(tmp_path / "lake")]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert r"evil\x1b[2Jgroup\r: healthy" in output
