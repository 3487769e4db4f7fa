"""`kohort assign`: the table, the comparison with --before, JSON and CSV, errors."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from kohort.assignors.resolve import resolve
from kohort.cli.assign import cases

TWO = "--topic t0=3 --topic t1=3 --member C0=t0,t1 --member C1=t0,t1"
RANGE = f"--assignor range {TWO}"


def test_the_table_is_a_grid_of_members_and_partitions(assign) -> None:
    picture = (
        "range: 6 partitions, 2 members, 2 to 4 each\n"
        "\n"
        "       t0     t1\n"
        "       0 1 2  0 1 2\n"
        "C0  4  ■ ■ ·  ■ ■ ·\n"
        "C1  2  · · ■  · · ■\n"
    )
    assert assign(RANGE) == (0, picture, "")


def test_the_table_with_a_previous_assignment_shows_what_moved(assign, before: Path) -> None:
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


def test_explain_lists_why_each_partition_moved(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=3 --topic t1=3 --member C0=t0 --member C2=t0,t1"
    _, out, _ = assign(flags, "--before", before, "--explain")
    assert out.endswith(
        "kept 2, moved 4\n"
        "PARTITION  FROM  TO  WHY\n"
        "t0-2       C1    C2  C1 left the group\n"
        "t1-0       C0    C2  C0 unsubscribed from t1\n"
        "t1-1       C0    C2  C0 unsubscribed from t1\n"
        "t1-2       C1    C2  C1 left the group\n"
    )


def test_a_cooperative_assignor_leaves_what_moves_to_the_next_rebalance(
    assign, before: Path, tmp_path: Path
) -> None:
    flags = f"--assignor cooperative-sticky {TWO} --member C2=t0,t1"
    _, out, _ = assign(flags, "--before", before)
    assert out.endswith("kept 4, moved 0, pending revocation 2\nC0 must revoke: t0 1, t1 1\n")
    _, out, _ = assign(flags, "--before", before, "--explain")
    assert (
        "t0-1       C0    -   C0 must revoke it first; the next rebalance assigns it to C2: "
        "balance: C0 has 2 without it, C2 2 with it\n" in out
    )
    _, first, _ = assign(flags, "--before", before, "--format", "json")
    assert json.loads(first)["assignment"]["C2"] == []
    (tmp_path / "1.json").write_text(first)
    _, second, _ = assign(flags, "--before", tmp_path / "1.json", "--format", "json")
    assert json.loads(second)["assignment"]["C2"] == [["t0", 1], ["t1", 1]]


def test_an_assignor_is_named_by_its_path(assign) -> None:
    path = "kohort.assignors.examples:InRack"
    flags = f"--assignor {path} --topic t=3 --member A=t --member B=t --rack A=a --rack B=b"
    _, out, _ = assign(flags, "--replica-racks", "t=b,b,a", "--format", "json")
    assert json.loads(out)["assignor"] == "in-rack"
    assert json.loads(out)["assignment"] == {"A": [["t", 2]], "B": [["t", 0], ["t", 1]]}


def test_partitions_that_are_unassigned_now_are_listed(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=2 --topic t1=3 --member C0=t0 --member C1=t0"
    _, out, _ = assign(flags, "--before", before)
    assert out.endswith(
        "kept 1, moved 1, unassigned 4\n"
        "C0 lost to C1: t0 1\n"
        "C0 lost, unassigned now: t1 0-1\n"
        "C1 lost, unassigned now: t0 2, t1 2\n"
    )


def test_without_moves_there_is_nothing_to_explain(assign, before: Path) -> None:
    for explain in ([], ["--explain"]):
        _, out, _ = assign(RANGE, "--before", before, *explain)
        assert out.endswith("\nkept 6, moved 0\n")


def test_the_json_output_is_the_before_of_the_next_assignment(assign, tmp_path: Path) -> None:
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
    larger = RANGE.replace("t1=3", "t1=4")
    _, second, _ = assign(larger, "--before", tmp_path / "1.json", "--format", "json")
    content = json.loads(second)
    assert content["kept"] == [["t0", 0], ["t0", 1], ["t0", 2], ["t1", 0], ["t1", 1], ["t1", 2]]
    assert content["moves"] == [
        {
            "topic": "t1",
            "partition": 3,
            "before": [],
            "member": "C1",
            "reason": "no previous owner",
            "explanation": "no previous owner",
        }
    ]
    (tmp_path / "2.json").write_text(second)
    _, third, _ = assign(larger, "--before", tmp_path / "2.json", "--format", "json")
    assert (json.loads(third)["assignment"], json.loads(third)["moves"]) == (
        content["assignment"],
        [],
    )


def test_members_own_their_previous_partitions_in_one_generation(
    assign, before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscriptions = {}

    class Recording(type(resolve("sticky"))):
        def assign(self, topics, members):
            subscriptions.update(members)
            return super().assign(topics, members)

    monkeypatch.setattr(cases, "resolve_cached", lambda name: Recording())
    assign(f"--assignor sticky {TWO} --member C3=t0", "--before", before, "--format", "csv")
    assert subscriptions["C1"].owned_partitions == (("t0", 2), ("t1", 2))
    generations = [subscriptions[name].generation_id for name in ("C0", "C1", "C3")]
    assert generations == [1, 1, None]
    assert subscriptions["C3"].owned_partitions == ()


def test_before_may_be_a_line_of_output_of_cases(assign, before: Path) -> None:
    before.write_text(json.dumps(json.loads(before.read_text())["assignment"]))
    _, out, _ = assign(RANGE, "--before", before)
    assert "kept 6, moved 0" in out


def test_csv_has_a_line_per_partition_and_per_idle_member(assign, before: Path) -> None:
    flags = "--assignor range --topic t0=1 --topic t1=1 --member C0=t0 --member C1=t0"
    _, out, _ = assign(flags, "--before", before, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [tuple(row.values())[:5] for row in rows] == [
        ("t0", "0", "C0", "C0", ""),
        ("t0", "1", "", "C0", "partition gone"),
        ("t0", "2", "", "C1", "partition gone"),
        ("t1", "0", "", "C0", "no subscriber"),
        ("t1", "1", "", "C0", "partition gone"),
        ("t1", "2", "", "C1", "partition gone"),
        ("", "", "C1", "", ""),
    ]
    assert list(rows[0]) == ["topic", "partition", "member", "before", "reason", "explanation"]


def test_racks_are_given_by_flags(assign) -> None:
    flags = "--assignor range --topic t=2 --member A=t --member B=t --rack A=a --rack B=b"
    _, out, _ = assign(flags, "--replica-racks", "t=b,a+c", "--format", "json")
    assert json.loads(out)["assignment"] == {"A": [["t", 1]], "B": [["t", 0]]}


def test_a_member_may_have_an_equals_sign_in_its_name_and_no_topics(assign) -> None:
    _, out, _ = assign("--assignor range --topic t=1 --member a=b=t --member c=", "--format", "csv")
    assert out.splitlines()[1:] == ["t,0,a=b,,,", ",,c,,,"]


def test_an_unknown_topic_is_skipped_with_a_warning(assign) -> None:
    code, out, err = assign("--assignor range --topic t=1 --member a=t,tt", "--format", "csv")
    assert (code, out.splitlines()[1:]) == (0, ["t,0,a,,,"])
    assert err == "warning: a subscribes to tt, but --topic tt is missing\n"


NO_FILE = "No such file or directory."
USER_ERRORS = {
    "": "pass --assignor, --topic and --member, or --cases.",
    "--assignor range": "nothing to assign: missing --topic and --member.",
    "--assignor range --topic t=1": "nothing to assign: missing --member.",
    "--assignor range --member a=t": "nothing to assign: missing --topic.",
    "--assignor range --topic t0": "invalid --topic t0: expected a value as in --topic t0=3.",
    "--assignor range --topic t=1 --topic t=2": "--topic t=2: t is specified twice.",
    "--assignor range --topic t=x": "invalid partitions of t: x, expected an integer from 0 to "
    "1000000.",
    "--assignor range --member C0": "invalid --member C0: expected a value as in --member "
    "C0=t0,t1.",
    "--assignor range --rack C0=a": "--rack C0=a: no --member C0.",
    "--assignor range --topic t=2 --replica-racks t=a": "replica_racks of t: expected a list for "
    "each of 2 partitions.",
    "--assignor range --explain": "--explain needs --before: it explains why partitions moved.",
    "--cases f --assignor range": "--assignor cannot be used with --cases.",
    "--cases f --format json": "--format cannot be used with --cases.",
    "--cases no/such/file": f"cannot read no/such/file: {NO_FILE}",
    "--assignor range --before no/such/file": f"cannot read no/such/file: {NO_FILE}",
    f"{RANGE} --svg no/such/file": f"cannot write --svg no/such/file: {NO_FILE}",
}


@pytest.mark.parametrize(("flags", "message"), USER_ERRORS.items())
def test_a_user_error_is_one_line(assign, flags: str, message: str) -> None:
    assert assign(flags) == (2, "", f"kohort assign: {message}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "invalid JSON: expecting value at character 1"),
        ("[]", "invalid previous assignment: [], expected an object"),
        (
            '{"C0": [["t0"]]}',
            'invalid entry of partitions of C0: ["t0"], expected a pair like ["t0", 0]',
        ),
    ],
)
def test_an_invalid_previous_assignment_is_reported(
    assign, before: Path, text: str, message: str
) -> None:
    before.write_text(text)
    assert assign(RANGE, "--before", before) == (
        2,
        "",
        f"kohort assign: --before {before}: {message}.\n",
    )


@pytest.mark.parametrize("flags", [RANGE, f"{RANGE} --format json", "--cases -"])
def test_neither_broker_nor_client_library_is_imported(flags: str) -> None:
    heavy = "'kio', 'kafka', 'asyncio', 'kohort.broker', 'kohort.protocol', 'kohort.log'"
    light = ", 'rich'" if flags != RANGE else ""
    probe = (
        f"import sys; from kohort.cli.main import main; main(['assign', *{flags.split()}]); "
        f"print({{{heavy}{light}}} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], input="", capture_output=True, text=True)
    assert done.stderr == "set()\n"
