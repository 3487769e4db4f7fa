"""`kohort assign` by its flags: the picture, two rounds beside each other, JSON and CSV."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from kohort.assignors.finding import find
from kohort.cli.assign import cases

TWO = "--topic t0=3 --topic t1=3 --member C0=t0,t1 --member C1=t0,t1"
RANGE = f"--assignor range {TWO}"


def test_the_answer_is_a_picture_of_members_by_partitions(assign) -> None:
    picture = (
        "range: 6 partitions, 2 members, 2 to 4 each\n"
        "\n"
        "       t0     t1\n"
        "       0 1 2  0 1 2\n"
        "C0  4  ■ ■ ·  ■ ■ ·\n"
        "C1  2  · · ■  · · ■\n"
    )
    assert assign(RANGE) == (0, picture, "")


def test_two_rounds_are_told_beside_each_other(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=3 --topic t1=4 --member C0=t0,t1 --member C2=t0,t1"
    _, out, _ = assign(flags, "--before", before)
    assert out == (
        "range: 7 partitions, 2 members, 3 to 4 each\n"
        "\n"
        "              t0     t1\n"
        "              0 1 2  0 1 2 3\n"
        "C0         4  ■ ■ ·  ■ ■ · ·\n"
        "C1 (left)  0  · · -  · · - ·\n"
        "C2         3  · · +  · · + +\n"
        "\n"
        "■ kept  + got  - lost\n"
        "\n"
        "kept 4, moved 2, new 1\n"
        "C1 lost to C2: t0 2, t1 2\n"
    )


def test_why_each_partition_moved_is_told_in_words(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=3 --topic t1=3 --member C0=t0 --member C2=t0,t1"
    _, out, _ = assign(flags, "--before", before, "--explain")
    assert out.endswith(
        "kept 2, moved 4\n"
        "PARTITION  FROM  TO  WHY\n"
        "t0-2       C1    C2  C1 left the group\n"
        "t1-0       C0    C2  C0 does not subscribe to t1 any more\n"
        "t1-1       C0    C2  C0 does not subscribe to t1 any more\n"
        "t1-2       C1    C2  C1 left the group\n"
    )


def test_a_cooperative_round_holds_back_what_the_next_one_gives_away(
    assign, before: Path, tmp_path: Path
) -> None:
    flags = f"--assignor cooperative-sticky {TWO} --member C2=t0,t1"
    _, out, _ = assign(flags, "--before", before)
    assert out.endswith("kept 4, moved 0, held back 2\nC0 has to give back: t0 1, t1 1\n")
    _, out, _ = assign(flags, "--before", before, "--explain")
    assert (
        "t0-1       C0    -   C0 has to give it back first, C2 gets it in the next round: "
        "balance: C0 has 2 without it, C2 2 with it\n" in out
    )
    _, first, _ = assign(flags, "--before", before, "--format", "json")
    assert json.loads(first)["assignment"]["C2"] == []
    (tmp_path / "1.json").write_text(first)
    _, second, _ = assign(flags, "--before", tmp_path / "1.json", "--format", "json")
    assert json.loads(second)["assignment"]["C2"] == [["t0", 1], ["t1", 1]]


def test_a_strategy_of_ones_own_is_named_by_its_path(assign) -> None:
    path = "kohort.assignors.examples.in_rack:InRack"
    flags = f"--assignor {path} --topic t=3 --member A=t --member B=t --rack A=a --rack B=b"
    _, out, _ = assign(flags, "--replica-racks", "t=b,b,a", "--format", "json")
    assert json.loads(out)["assignor"] == "in-rack"
    assert json.loads(out)["assignment"] == {"A": [["t", 2]], "B": [["t", 0], ["t", 1]]}


def test_what_nobody_has_any_more_is_told(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=2 --topic t1=3 --member C0=t0 --member C1=t0"
    _, out, _ = assign(flags, "--before", before)
    assert out.endswith(
        "kept 1, moved 1, nobody's any more 4\n"
        "C0 lost to C1: t0 1\n"
        "C0 lost, nobody has it: t1 0-1\n"
        "C1 lost, nobody has it: t0 2, t1 2\n"
    )


def test_where_nothing_moved_there_is_nothing_to_explain(assign, before: Path) -> None:
    for explain in ([], ["--explain"]):
        _, out, _ = assign(RANGE, "--before", before, *explain)
        assert out.endswith("\nkept 6, moved 0\n")


def test_the_json_of_one_round_is_the_before_of_the_next(assign, tmp_path: Path) -> None:
    _, first, _ = assign(RANGE, "--format", "json")
    assert json.loads(first) == {
        "assignor": "range",
        "assignment": {
            "C0": [["t0", 0], ["t0", 1], ["t1", 0], ["t1", 1]],
            "C1": [["t0", 2], ["t1", 2]],
        },
        "kept": None,
        "moves": None,
    }
    (tmp_path / "1.json").write_text(first)
    grown = RANGE.replace("t1=3", "t1=4")
    _, second, _ = assign(grown, "--before", tmp_path / "1.json", "--format", "json")
    told = json.loads(second)
    assert told["kept"] == [["t0", 0], ["t0", 1], ["t0", 2], ["t1", 0], ["t1", 1], ["t1", 2]]
    assert told["moves"] == [
        {
            "topic": "t1",
            "partition": 3,
            "before": [],
            "member": "C1",
            "reason": "nobody had it",
            "words": "nobody had it",
        }
    ]
    (tmp_path / "2.json").write_text(second)
    _, third, _ = assign(grown, "--before", tmp_path / "2.json", "--format", "json")
    assert (json.loads(third)["assignment"], json.loads(third)["moves"]) == (told["assignment"], [])


def test_members_own_what_they_had_in_one_generation(
    assign, before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = find("sticky")
    told = {}

    class Listening(type(strategy)):
        def assign(self, topics, members):
            told.update(members)
            return super().assign(topics, members)

    monkeypatch.setattr(cases, "assignor_named", lambda name: Listening())
    assign(f"--assignor sticky {TWO} --member C3=t0", "--before", before, "--format", "csv")
    assert told["C1"].owned == (("t0", 2), ("t1", 2))
    assert [told[name].generation for name in ("C0", "C1", "C3")] == [1, 1, None]
    assert told["C3"].owned == ()


def test_an_answer_of_cases_is_a_round_before_too(assign, before: Path) -> None:
    before.write_text(json.dumps(json.loads(before.read_text())["assignment"]))
    _, out, _ = assign(RANGE, "--before", before)
    assert "kept 6, moved 0" in out


def test_csv_has_a_line_a_partition_and_one_for_who_has_none(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=1 --topic t1=1 --member C0=t0 --member C1=t0"
    _, out, _ = assign(flags, "--before", before, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [tuple(row.values())[:5] for row in rows] == [
        ("t0", "0", "C0", "C0", ""),
        ("t0", "1", "", "C0", "partition gone"),
        ("t0", "2", "", "C1", "partition gone"),
        ("t1", "0", "", "C0", "not wanted"),
        ("t1", "1", "", "C0", "partition gone"),
        ("t1", "2", "", "C1", "partition gone"),
        ("", "", "C1", "", ""),
    ]
    assert list(rows[0]) == ["topic", "partition", "member", "before", "reason", "words"]


def test_racks_are_given_by_flags(assign) -> None:
    flags = "--assignor range --topic t=2 --member A=t --member B=t --rack A=a --rack B=b"
    _, out, _ = assign(flags, "--replica-racks", "t=b,a+c", "--format", "json")
    assert json.loads(out)["assignment"] == {"A": [["t", 1]], "B": [["t", 0]]}


def test_a_member_may_have_an_equals_sign_in_its_name_and_no_topics(assign) -> None:
    _, out, _ = assign("--assignor range --topic t=1 --member a=b=t --member c=", "--format", "csv")
    assert out.splitlines()[1:] == ["t,0,a=b,,,", ",,c,,,"]


def test_a_topic_that_is_not_there_is_skipped_and_said(assign) -> None:
    code, out, err = assign("--assignor range --topic t=1 --member a=t,tt", "--format", "csv")
    assert (code, out.splitlines()[1:]) == (0, ["t,0,a,,,"])
    assert err == "a subscribes to tt, which no --topic tells of: it is skipped.\n"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("", "give --assignor with --topic and --member, or --cases."),
        ("--assignor range", "there is nothing to share out: give --topic and --member, too."),
        ("--assignor range --topic t=1", "there is nothing to share out: give --member, too."),
        ("--assignor range --member a=t", "there is nothing to share out: give --topic, too."),
        ("--assignor range --topic t0", "--topic t0: give it as --topic t0=3."),
        ("--assignor range --topic t=1 --topic t=2", "--topic t=2: t is given twice."),
        (
            "--assignor range --topic t=x",
            "partitions of t: x, where a whole number from 0 to 1000000 is wanted.",
        ),
        ("--assignor range --member C0", "--member C0: give it as --member C0=t0,t1."),
        ("--assignor range --rack C0=a", "--rack C0=a: no --member is called C0."),
        (
            "--assignor range --topic t=2 --replica-racks t=a",
            "replica_racks of t: a list for each of 2 partitions is wanted.",
        ),
        (
            "--assignor range --explain",
            "--explain says why partitions moved: give the round --before, too.",
        ),
        ("--cases f --assignor range", "--cases tells all: leave --assignor out."),
        ("--cases f --format json", "--cases tells all: leave --format out."),
        ("--cases no/such/file", "no/such/file: No such file or directory."),
        ("--assignor range --before no/such/file", "no/such/file: No such file or directory."),
        (f"{RANGE} --svg no/such/file", "--svg no/such/file: No such file or directory."),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(assign, flags: str, sentence: str) -> None:
    assert assign(flags) == (2, "", f"kohort assign: {sentence}\n")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "not JSON: expecting value at character 1"),
        ("[]", "the round before: [], where an object is wanted"),
        (
            '{"C0": [["t0"]]}',
            'one of partitions of C0: ["t0"], where a pair like ["t0", 0] is wanted',
        ),
    ],
)
def test_a_round_before_that_is_none_is_said(assign, before: Path, text: str, wrong: str) -> None:
    before.write_text(text)
    assert assign(RANGE, "--before", before) == (
        2,
        "",
        f"kohort assign: --before {before}: {wrong}.\n",
    )


@pytest.mark.parametrize("flags", [RANGE, f"{RANGE} --format json", "--cases -"])
def test_neither_broker_nor_client_is_imported(flags: str) -> None:
    heavy = "'kio', 'kafka', 'asyncio', 'kohort.broker', 'kohort.protocol', 'kohort.log'"
    light = ", 'rich'" if flags != RANGE else ""
    probe = (
        f"import sys; from kohort.cli.main import main; main(['assign', *{flags.split()}]); "
        f"print({{{heavy}{light}}} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], input="", capture_output=True, text=True)
    assert done.stderr == "set()\n"
