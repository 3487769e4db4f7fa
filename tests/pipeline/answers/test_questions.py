"""`kohort why`, `timeline`, `lag`, `storms`: what people and scripts are told."""

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
from kohort.pipeline.answers import rows
from kohort.pipeline.lake import write_batch

from .world import CLUSTER, NOW, of

Ask = Callable[..., str]


@pytest.fixture
def ask(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """A question to the lake in a terminal of 80 columns; the answer."""
    monkeypatch.setenv("COLUMNS", "80")

    def answer(*words: str) -> str:
        assert main([*words, "--lake", str(lake)]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return answer


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_why_names_the_slow_member_says_what_it_rests_on_and_what_to_do(ask: Ask) -> None:
    said = ask("why", "checkout")
    words = " ".join(said.split())
    assert said.startswith("checkout: slow consumer (error), as of 2026-03-02 10:00:00 UTC\n")
    assert "it was thrown out of checkout 4 times in the last hour" in words
    assert words.index("Evidence - 4 of 4 exits") < words.index("What to do - Make the proc")
    assert "09:14:10 3 3 → 2 3.1 s poll interval exceeded - checkout-2 (silent 5 min" in words


@pytest.mark.parametrize("question", ["why", "timeline"])
@pytest.mark.parametrize("group", ["checkout", "search", "billing", "nightly", "mailer"])
def test_answers_for_people_fit_into_80_columns(ask: Ask, question: str, group: str) -> None:
    assert max(map(len, ask(question, group).splitlines())) <= 80


def test_the_timeline_tells_who_went_who_came_and_how_many_partitions_moved(ask: Ask) -> None:
    lines = ask("timeline", "checkout", "--last", "2").splitlines()
    assert lines[0] == "checkout: 10 rebalances, 2026-03-02 09:00:02 to 2026-03-02 09:48:45 UTC"
    assert lines[2:] == [
        "8 earlier changes not shown",
        "",
        "TIME (UTC)  GEN  MEMBERS     PAUSE  CAUSE",
        "--- 2026-03-02",
        "09:47:10      9  3 → 2        3.1 s  poll interval exceeded",
        "              - checkout-2 (silent 5 min, back after 1 min 35 s)",
        "              checkout-2 committed nothing for 300.2 s; its max.poll.interval.ms",
        "              is 300000. 2 of 6 partitions moved.",
        "09:48:45     10  2 → 3         41 s  member joined",
        "              + checkout-2",
        "              checkout-2 came back 95 s after it was too slow to poll. 2 of 6",
        "              partitions moved.",
    ]


def test_a_cause_that_is_not_sure_says_so_and_lost_generations_are_told(ask: Ask) -> None:
    said = ask("timeline", "search")
    assert "session expired (medium)" in said
    assert "1 generation before it never synced." in said


def test_lag_is_told_in_records_and_in_time_with_the_owner(ask: Ask) -> None:
    first, *lines = [" ".join(line.split()) for line in ask("lag", "checkout").splitlines()]
    assert first == "TOPIC PARTITION STATUS LAG TIME-LAG TREND OWNER"
    assert lines[2] == "orders 2 STOP 71,900 23 min 58 s growing checkout-2 @ 10.0.0.5"
    everywhere = ask("lag").splitlines()
    assert everywhere[0].startswith("GROUP     TOPIC     PARTITION")
    assert len(everywhere) == 1 + 6 + 4 + 3 + 2 + 4 + 2
    assert "NO_OWNER  120,000" in everywhere[14]


def test_a_lag_that_is_not_known_is_a_dash_and_why_is_said(
    blind_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lag", "billing", "--lake", str(blind_lake)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[:5] == ["payments", "0", "UNKNOWN", "-", "-"]
    assert "lag is not known: the lake has no samples of where logs end" in said.err
    assert main(["lag", "billing", "--lake", str(blind_lake), "--format", "json"]) == 0
    assert {row["lag"] for row in json.loads(capsys.readouterr().out)} == {None}


def test_storms_are_listed_and_their_absence_is_said(ask: Ask) -> None:
    storm = " ".join(ask("storms").splitlines()[1].split())
    assert storm == "search 2026-03-02 09:40:00 11 min 37 s 18 8 4 min 42 s session expired"
    assert ask("storms", "checkout") == "No storm of rebalances in checkout.\n"


FIELDS = {
    ("why", "checkout"): (*rows.Diagnosis._fields, "rebalances"),
    ("timeline", "checkout"): rows.Change._fields,
    ("lag",): rows.Lag._fields,
    ("storms",): rows.Storm._fields,
}


@pytest.mark.parametrize(("question", "fields"), FIELDS.items(), ids=lambda each: each[0])
def test_json_and_csv_have_the_same_fields_and_values(
    ask: Ask, question: tuple[str, ...], fields: tuple[str, ...]
) -> None:
    of_json = json.loads(ask(*question, "--format", "json"))
    of_csv = list(csv.DictReader(io.StringIO(ask(*question, "--format", "csv"))))
    assert len(of_json) == len(of_csv) > 0
    for row, texts in zip(of_json, of_csv, strict=True):
        assert (tuple(row), tuple(texts)) == (fields, fields)
        assert texts == {name: in_csv(value) for name, value in row.items()}


def in_csv(value: Any) -> str:
    if isinstance(value, list | bool):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def test_times_are_iso_8601_with_their_zone(ask: Ask) -> None:
    (storm,) = json.loads(ask("storms", "--format", "json"))
    assert storm["from_ts"] == "2026-03-02T09:40:00.000Z"
    assert datetime.fromisoformat(storm["to_ts"]).utcoffset() is not None


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("chekout", "did you mean checkout?"),
        ("CHECKOUT", "did you mean checkout?"),
        ("bill", "did you mean billing?"),
        ("zzz", "it knows billing, checkout, mailer, nightly, search."),
    ],
)
@pytest.mark.parametrize("question", ["why", "timeline", "lag", "storms"])
def test_a_group_that_is_not_there_is_answered_with_the_nearest_names(
    lake: Path, capsys: pytest.CaptureFixture[str], question: str, typed: str, near: str
) -> None:
    said = refusal(capsys, question, typed, "--lake", str(lake))
    assert said == f"kohort {question}: the lake knows no group {typed}; {near}\n"


def test_a_folder_that_is_no_lake_is_told_with_the_way_to_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        said = refusal(capsys, "lag", "--lake", str(folder))
        assert str(folder) in said
        assert "kohort pipeline run" in said


def test_a_lake_of_an_empty_log_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_batch(tmp_path / "lake", {}, as_of=NOW)
    said = refusal(capsys, "why", "checkout", "--lake", str(tmp_path / "lake"))
    assert "nothing was in the log" in said
    assert main(["lag", "--lake", str(tmp_path / "lake")]) == 0
    assert capsys.readouterr().out == "No group has committed offsets (any more).\n"


def test_without_pyarrow_it_says_what_to_install(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install './kohort[pipeline]'" in refusal(capsys, "lag", "--lake", str(lake))


def test_answers_need_no_spark(lake: Path) -> None:
    probe = (
        "import sys; from kohort.cli.main import main; "
        f"code = main(['why', 'checkout', '--lake', {str(lake)!r}]); "
        "print(code, {'pyspark', 'py4j', 'kio', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0 set()", "")


def test_names_that_would_steer_a_terminal_are_shown_not_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = "evil\x1b[2Jgroup\r"
    diagnosis = of(group, severity=0, verdict="HEALTHY", text=f"Nothing is wrong with {group}.")
    diagnosis |= {"evidence": [], "advice": [], "as_of": NOW}
    lifecycle = of(group, first_seen=NOW)
    tables = {"gold_diagnosis": [diagnosis], "gold_group_lifecycle": [lifecycle]}
    write_batch(tmp_path / "lake", tables, cluster=CLUSTER, as_of=NOW)
    assert main(["why", group, "--lake", str(tmp_path / "lake")]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert r"evil\x1b[2Jgroup\r: healthy" in said
