"""`--cases`: what a case may say, what answers a wrong one, and that nothing is gathered."""

import io
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.cli.assign import cases, finding, stream
from kohort.cli.assign.stream import answer, answer_all


def case(**changes: Any) -> dict[str, Any]:
    """Two members that share t0."""
    members = {"C0": {"topics": ["t0"]}, "C1": {"topics": ["t0"]}}
    return {"assignor": "range", "partitions": {"t0": 3}, "members": members, **changes}


def member(**changes: Any) -> dict[str, Any]:
    return case(members={"C0": {"topics": ["t0"], **changes}})


def line(content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"


def answered(content: Any) -> Any:
    return json.loads(answer(line(content)))


class Spy:
    """Sees what an assignor is given. It adds what a member owns to its subscription."""

    name = "spy"
    cooperative = False
    members: Mapping[str, Subscription]
    topics: Topics

    def user_data(
        self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int | None
    ) -> bytes | None:
        return None if generation is None else repr((topics, owned, generation)).encode()

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        self.topics, self.members = topics, members
        return {name: [] for name in members}


class Answering(Spy):
    def __init__(self, given: Any) -> None:
        self.given = given

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(cases, "assignor_named", lambda name: spy)
    return spy


def test_a_case_is_answered_by_each_members_partitions() -> None:
    assert answered(case()) == {"C0": [["t0", 0], ["t0", 1]], "C1": [["t0", 2]]}


def test_members_and_partitions_are_answered_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"C1": [("t0", 10), ("t0", 9), ("t", 1)], "C0": []}
    monkeypatch.setattr(cases, "assignor_named", lambda name: Answering(given))
    members = {name: {"topics": []} for name in ("C1", "C0")}
    told = answered(case(partitions={"t0": 11, "t": 2}, members=members))
    assert list(told.items()) == [("C0", []), ("C1", [["t", 1], ["t0", 9], ["t0", 10]])]


def test_all_that_a_member_may_tell_reaches_the_assignor(spy: Spy) -> None:
    told = {
        "topics": ["t0", "t9"],
        "owned": [["t0", 1], ["gone", 0]],
        "generation": 7,
        "rack": "a",
        "user_data": b64encode(b"\x00\xff").decode(),
        "group_instance_id": "i0",
    }
    racks = [["a", None], ["b"], []]
    answered(case(members={"C0": told}, replica_racks={"t0": racks}))
    owned = (("t0", 1), ("gone", 0))
    assert spy.members == {"C0": Subscription(("t0", "t9"), owned, 7, "a", b"\x00\xff", "i0")}
    assert spy.topics == Topics({"t0": 3}, {"t0": (("a", None), ("b",), ())})


def test_what_a_member_leaves_out_is_not_there(spy: Spy) -> None:
    nothing = dict.fromkeys(("generation", "rack", "user_data", "group_instance_id"))
    for told in ({}, nothing, {"generation": -1}):
        answered(member(**told))
        assert spy.members == {"C0": Subscription(("t0",))}


def test_topics_and_owned_partitions_are_sets(spy: Spy) -> None:
    answered(member(topics=["t0", "t1", "t0"], owned=[["t0", 1], ["t0", 1]], generation=1))
    assert (spy.members["C0"].topics, spy.members["C0"].owned) == (("t0", "t1"), (("t0", 1),))


def test_user_data_is_made_as_the_member_would_make_it(spy: Spy) -> None:
    answered(member(owned=[["t0", 1]], generation=4))
    assert spy.members["C0"].user_data == b"(('t0',), (('t0', 1),), 4)"


def test_user_data_tells_what_is_owned_in_no_known_generation(spy: Spy) -> None:
    answered(member(owned=[["t0", 1]]))
    assert spy.members["C0"].user_data == b"(('t0',), (('t0', 1),), -1)"
    assert spy.members["C0"].generation is None


def test_user_data_that_is_given_is_left_as_it_is(spy: Spy) -> None:
    answered(member(owned=[["t0", 1]], generation=4, user_data=""))
    assert spy.members["C0"].user_data == b""


@pytest.mark.parametrize("generation", [{}, {"generation": 1}])
@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_members_keep_what_they_own(assignor: str, generation: dict[str, int]) -> None:
    owner = {"topics": ["t0"], "owned": [["t0", 0], ["t0", 2]], **generation}
    members = {"C0": {"topics": ["t0"]}, "C1": owner}
    told = answered(case(assignor=assignor, members=members))
    assert told == {"C0": [["t0", 1]], "C1": [["t0", 0], ["t0", 2]]}


NUMBER = "where a whole number from 0 to"
WRONG = {
    b"{": "not JSON: expecting property name enclosed in double quotes at character 2",
    b"\n": "an empty line",
    b"\xff": "byte 0 is not UTF-8",
    b"[" * 100_000: "not a case: nested too deeply",
    b"9" * 5_000: "not a case: a number of thousands of digits",
    b"[]": "the case: [], where an object is wanted",
    b"null": "the case: nothing, where an object is wanted",
    b'{"assignor": "range", "assignor": "range"}': "assignor comes twice",
    line(case(assignor=None)): "assignor: nothing, where a string is wanted",
    line(case(assignor="")): "assignor is empty",
    line(case(partitions=None)): "partitions: nothing, where an object is wanted",
    line(case(members=[])): "members: [], where an object is wanted",
    line(case(assigner=1)): "the case has no field assigner, but these: "
    "assignor, members, partitions, replica_racks",
    line(case(partitions={"t0": True})): f"partitions of t0: true, {NUMBER} 1000000 is wanted",
    line(case(partitions={"t0": 3.0})): f"partitions of t0: 3.0, {NUMBER} 1000000 is wanted",
    line(case(partitions={"t0": -1})): f"partitions of t0: -1, {NUMBER} 1000000 is wanted",
    line(case(partitions={"t0": float("nan")})): f"partitions of t0: NaN, {NUMBER} 1000000 "
    "is wanted",
    line(case(partitions={"t0": 600_000, "t1": 600_000})): "1200000 partitions: 1000000 are "
    "the most",
    line(case(partitions={"": 1})): "a topic is empty",
    line(case(members={"": {"topics": []}})): "a member is empty",
    line(case(members={str(n): 0 for n in range(10_001)})): "10001 members: 10000 are the most",
    line(case(members={"C0": []})): "the member C0: [], where an object is wanted",
    line(case(members={"C0": {}})): "topics of C0: nothing, where a list is wanted",
    line(member(onwed=[])): "the member C0 has no field onwed, but these: generation, "
    "group_instance_id, owned, rack, topics, user_data",
    line(member(topics="t0")): "topics of C0: t0, where a list is wanted",
    line(member(topics=[0])): "a topic of C0: 0, where a string is wanted",
    line(member(topics=["\ud800"])): "a topic of C0 is not text: half a surrogate pair stands "
    "in it",
    line(member(topics=["é" * 16_384])): "a topic of C0 has more than 32767 bytes",
    line(member(owned=None)): 'owned of C0: nothing, where a list like [["t0", 0]] is wanted',
    line(member(owned=["t0"])): 'one of owned of C0: t0, where a pair like ["t0", 0] is wanted',
    line(member(owned=[["t0", 0, 1]])): "one of owned of C0: "
    '["t0", 0, 1], where a pair like ["t0", 0] is wanted',
    line(member(owned=[["t0", 2**31]])): f"a partition in owned of C0: 2147483648, {NUMBER} "
    "2147483647 is wanted",
    line(member(generation="1")): "generation of C0: 1, where a whole number from -2147483648 to "
    "2147483647 is wanted",
    line(member(rack=1)): "rack of C0: 1, where a string is wanted",
    line(member(user_data="%%%%")): "user_data of C0: %%%%, where base64 is wanted",
    line(member(user_data=[1])): "user_data of C0: [1], where base64 is wanted",
    line(member(group_instance_id="")): "group_instance_id of C0 is empty",
    line(case(replica_racks={"t1": []})): "replica_racks of t1: partitions has no such topic",
    line(case(replica_racks={"t0": [["a"]]})): "replica_racks of t0: a list for each of 3 "
    "partitions is wanted",
    line(case(replica_racks={"t0": ["a", "b", "c"]})): "one of replica_racks of t0: a, where a "
    'list like ["a", "b"] is wanted',
}


@pytest.mark.parametrize(("wrong", "error"), WRONG.items(), ids=range(len(WRONG)))
def test_a_bad_case_is_answered_by_a_sentence(wrong: bytes, error: str) -> None:
    assert json.loads(answer(wrong)) == {"error": error}


def test_an_unknown_assignor_is_answered_by_those_there_are() -> None:
    error = answered(case(assignor="rang"))["error"]
    assert "rang" in error
    assert "range" in error
    assert "roundrobin" in error


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("json:loads", "json:loads is no assignor, it lacks name"),
        (".json:loads", ".json:loads cannot be imported: TypeError: "),
        ("{module}:Any", "{module}:Any cannot be imported: SystemExit: 3"),
    ],
)
def test_a_path_may_lead_anywhere(
    name: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving_at_import.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    name, error = (text.format(module="leaving_at_import") for text in (name, error))
    assert answered(case(assignor=name))["error"].startswith(error)


def test_each_name_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find(name: str) -> Spy:
        asked.append(name)
        if name == "none":
            raise finding.AssignorNotFound("there is none")
        return Spy()

    monkeypatch.setattr(finding, "find", find)
    monkeypatch.setattr(finding, "_FOUND", {})
    for name in ("one", "none", "one", "none"):
        answered(case(assignor=name))
    assert asked == ["one", "none"]
    monkeypatch.setattr(finding, "NAMES_MAX", 2)
    assert answered(case(assignor="other")) == {"C0": [], "C1": []}
    assert len(finding._FOUND) == 1


def test_of_a_long_value_the_beginning_is_told() -> None:
    told = answered(member(rack=list(range(1_000))))["error"]
    assert told.startswith("rack of C0: [0, 1, 2,")
    assert len(told) < 120


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (ValueError("no weights"), "the assignor spy failed: ValueError: no weights"),
        (ZeroDivisionError(), "the assignor spy failed: ZeroDivisionError"),
        ({}, "the assignor spy left out the member C0"),
        ({"C0": [], "C9": []}, "the assignor spy made up the member C9"),
        ({"C0": [("t0", 3)]}, "the assignor spy gave out t0-3, which is not there"),
        ({"C0": [("t9", 0)]}, "the assignor spy gave out t9-0, which is not there"),
        ({"C0": [("t0", 0), ("t0", 0)]}, "the assignor spy gave out t0-0 twice"),
    ],
)
def test_an_assignor_that_fails_fails_its_case_only(
    given: Any, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "assignor_named", lambda name: Answering(given))
    assert answered(member()) == {"error": error}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*cases.CASE_FIELDS, *cases.MEMBER_FIELDS]), inner)
    ),
    max_leaves=8,
)


@given(JSON | st.builds(member, topics=JSON, owned=JSON, generation=JSON, rack=JSON))
def test_any_json_is_answered_by_one_line_of_json(content: Any) -> None:
    answers = io.StringIO()
    answer_all(io.BytesIO(line(content)), answers)
    (told,) = answers.getvalue().splitlines()
    assert isinstance(json.loads(told), dict)


@given(st.binary(max_size=30).filter(lambda junk: b"\n" not in junk))
def test_junk_is_answered_by_an_error(junk: bytes) -> None:
    assert list(json.loads(answer(junk + b"\n"))) == ["error"]


def test_each_line_has_its_answer_and_the_last_needs_no_end() -> None:
    answers = io.StringIO()
    wrong = b"nonsense\n"
    answer_all(io.BytesIO(line(case()) + wrong + b"\n" + line(member()).rstrip()), answers)
    first, second, third, fourth = map(json.loads, answers.getvalue().splitlines())
    assert [list(told) for told in (first, second, third, fourth)] == [
        ["C0", "C1"],
        ["error"],
        ["error"],
        ["C0"],
    ]


def test_a_line_that_is_too_long_is_skipped_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LINE_BYTES_MAX", len(line(case())))
    monkeypatch.setattr(stream, "SKIPPED_AT_ONCE", 7)
    answers = io.StringIO()
    long = b"1" * 999 + b"\n"
    answer_all(io.BytesIO(line(case()) + long + line(case()) + long.rstrip()), answers)
    first, second, third, fourth = map(json.loads, answers.getvalue().splitlines())
    assert first == third
    assert list(first) == ["C0", "C1"]
    assert second == fourth == {"error": f"a line of more than {len(line(case()))} bytes"}


def test_a_case_is_answered_before_the_next_is_there() -> None:
    """So that nothing is gathered, and a program may ask one after the other."""
    command = (sys.executable, "-m", "kohort", "assign", "--cases", "-")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=buffered
    ) as process:
        deadline = Timer(60, process.kill)
        deadline.start()
        assert process.stdin is not None
        assert process.stdout is not None
        for content in (case(), [], case()):
            process.stdin.write(line(content))
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == answered(content)
        process.stdin.close()
        assert process.wait() == 0
        deadline.cancel()
