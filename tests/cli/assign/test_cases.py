"""`--cases`: the fields of a case, errors, and output line by line."""

import io
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import AssignorNotFound
from kohort.cli.assign import cases, command
from kohort.cli.assign.command import run_case, run_cases


def case(**changes: Any) -> dict[str, Any]:
    """Two members, both subscribed to t0."""
    members = {"C0": {"topics": ["t0"]}, "C1": {"topics": ["t0"]}}
    return {"assignor": "range", "partitions": {"t0": 3}, "members": members, **changes}


def member(**changes: Any) -> dict[str, Any]:
    return case(members={"C0": {"topics": ["t0"], **changes}})


def line(content: Any) -> bytes:
    return json.dumps(content).encode() + b"\n"


def assigned(content: Any) -> Any:
    return json.loads(run_case(line(content)))


class Spy:
    """An assignor that records its arguments, with owned partitions in the user data."""

    name = "spy"
    cooperative = False
    members: Mapping[str, Subscription]
    topics: Topics

    def subscription_user_data(
        self,
        topics: Sequence[str],
        owned_partitions: Sequence[TopicPartition],
        generation_id: int | None,
    ) -> bytes | None:
        arguments = (topics, owned_partitions, generation_id)
        return None if generation_id is None else repr(arguments).encode()

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        self.topics, self.members = topics, members
        return {name: [] for name in members}


class Returning(Spy):
    """Returns a result, or raises it."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(cases, "resolve_cached", lambda name: spy)
    return spy


def test_the_result_of_a_case_is_its_assignment() -> None:
    assert assigned(case()) == {"C0": [["t0", 0], ["t0", 1]], "C1": [["t0", 2]]}


def test_members_and_partitions_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"C1": [("t0", 10), ("t0", 9), ("t", 1)], "C0": []}
    monkeypatch.setattr(cases, "resolve_cached", lambda name: Returning(result))
    members = {name: {"topics": []} for name in ("C1", "C0")}
    assignment = assigned(case(partitions={"t0": 11, "t": 2}, members=members))
    assert list(assignment.items()) == [("C0", []), ("C1", [["t", 1], ["t0", 9], ["t0", 10]])]


def test_all_fields_of_a_member_are_passed_to_the_assignor(spy: Spy) -> None:
    fields = {
        "topics": ["t0", "t9"],
        "owned": [["t0", 1], ["gone", 0]],
        "generation": 7,
        "rack": "a",
        "user_data": b64encode(b"\x00\xff").decode(),
        "group_instance_id": "i0",
    }
    racks = [["a", None], ["b"], []]
    assigned(case(members={"C0": fields}, replica_racks={"t0": racks}))
    owned = (("t0", 1), ("gone", 0))
    assert spy.members == {"C0": Subscription(("t0", "t9"), owned, 7, "a", b"\x00\xff", "i0")}
    assert spy.topics == Topics({"t0": 3}, {"t0": (("a", None), ("b",), ())})


def test_missing_fields_are_none(spy: Spy) -> None:
    nothing = dict.fromkeys(("generation", "rack", "user_data", "group_instance_id"))
    for fields in ({}, nothing, {"generation": -1}):
        assigned(member(**fields))
        assert spy.members == {"C0": Subscription(("t0",))}


def test_topics_and_owned_partitions_are_sets(spy: Spy) -> None:
    assigned(member(topics=["t0", "t1", "t0"], owned=[["t0", 1], ["t0", 1]], generation=1))
    assert spy.members["C0"].topics == ("t0", "t1")
    assert spy.members["C0"].owned_partitions == (("t0", 1),)


def test_missing_user_data_is_that_which_the_member_would_send(spy: Spy) -> None:
    assigned(member(owned=[["t0", 1]], generation=4))
    assert spy.members["C0"].user_data == b"(('t0',), (('t0', 1),), 4)"


def test_user_data_of_owned_partitions_without_a_generation(spy: Spy) -> None:
    assigned(member(owned=[["t0", 1]]))
    assert spy.members["C0"].user_data == b"(('t0',), (('t0', 1),), -1)"
    assert spy.members["C0"].generation_id is None


def test_given_user_data_is_not_changed(spy: Spy) -> None:
    assigned(member(owned=[["t0", 1]], generation=4, user_data=""))
    assert spy.members["C0"].user_data == b""


@pytest.mark.parametrize("generation", [{}, {"generation": 1}])
@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_members_keep_what_they_own(assignor: str, generation: dict[str, int]) -> None:
    owner = {"topics": ["t0"], "owned": [["t0", 0], ["t0", 2]], **generation}
    members = {"C0": {"topics": ["t0"]}, "C1": owner}
    assignment = assigned(case(assignor=assignor, members=members))
    assert assignment == {"C0": [["t0", 1]], "C1": [["t0", 0], ["t0", 2]]}


NUMBER = "expected an integer from 0 to"
INVALID = {
    b"{": "invalid JSON: expecting property name enclosed in double quotes at character 2",
    b"\n": "empty line",
    b"\xff": "invalid UTF-8 at byte 0",
    b"[" * 100_000: "invalid case: nested too deeply",
    b"9" * 5_000: "invalid case: a number with thousands of digits",
    b"[]": "invalid case: [], expected an object",
    b"null": "missing case: expected an object",
    b'{"assignor": "range", "assignor": "range"}': "duplicate name assignor",
    line(case(assignor=None)): "missing assignor: expected a string",
    line(case(assignor="")): "empty assignor",
    line(case(assigner="range")): "unknown field assigner in case: "
    "expected assignor, members, partitions, replica_racks",
    line(case(partitions={"t0": True})): f"invalid partitions of t0: true, {NUMBER} 1000000",
    line(case(partitions={"t0": 3.0})): f"invalid partitions of t0: 3.0, {NUMBER} 1000000",
    line(case(partitions={"t0": -1})): f"invalid partitions of t0: -1, {NUMBER} 1000000",
    line(case(partitions={"t0": float("nan")})): f"invalid partitions of t0: NaN, {NUMBER} 1000000",
    line(case(partitions={"t0": 600_000, "t1": 600_000})): "1200000 partitions: "
    "at most 1000000 are allowed",
    line(case(partitions={"": 1})): "empty topic",
    line(case(members={"": {"topics": []}})): "empty member",
    line(case(members={str(n): 0 for n in range(10_001)})): "10001 members: "
    "at most 10000 are allowed",
    line(case(members={"C0": []})): "invalid member C0: [], expected an object",
    line(case(members={"C0": {}})): "missing topics of C0: expected a list",
    line(member(onwed=[])): "unknown field onwed in member C0: expected generation, "
    "group_instance_id, owned, rack, topics, user_data",
    line(member(topics="t0")): "invalid topics of C0: t0, expected a list",
    line(member(topics=[0])): "invalid topic of C0: 0, expected a string",
    line(member(topics=["\ud800"])): "topic of C0 contains an unpaired surrogate",
    line(member(topics=["é" * 16_384])): "topic of C0 is longer than 32767 bytes",
    line(member(owned=None)): 'missing owned of C0: expected a list like [["t0", 0]]',
    line(member(owned=["t0"])): 'invalid entry of owned of C0: t0, expected a pair like ["t0", 0]',
    line(member(owned=[["t0", 0, 1]])): "invalid entry of owned of C0: "
    '["t0", 0, 1], expected a pair like ["t0", 0]',
    line(member(owned=[["t0", 2**31]])): "invalid partition in owned of C0: 2147483648, "
    f"{NUMBER} 2147483647",
    line(member(generation="1")): "invalid generation of C0: 1, "
    "expected an integer from -2147483648 to 2147483647",
    line(member(rack=1)): "invalid rack of C0: 1, expected a string",
    line(member(user_data="%%%%")): "invalid user_data of C0: %%%%, expected base64",
    line(member(user_data=[1])): "invalid user_data of C0: [1], expected base64",
    line(member(group_instance_id="")): "empty group_instance_id of C0",
    line(case(replica_racks={"t1": []})): "replica_racks of t1: no such topic in partitions",
    line(case(replica_racks={"t0": [["a"]]})): "replica_racks of t0: "
    "expected a list for each of 3 partitions",
    line(case(replica_racks={"t0": ["a", "b", "c"]})): "invalid entry of replica_racks of t0: a, "
    'expected a list like ["a", "b"]',
}


@pytest.mark.parametrize(("invalid", "error"), INVALID.items(), ids=range(len(INVALID)))
def test_the_result_of_an_invalid_case_is_an_error(invalid: bytes, error: str) -> None:
    assert json.loads(run_case(invalid)) == {"error": error}


def test_the_error_for_an_unknown_assignor_lists_the_known_ones() -> None:
    error = assigned(case(assignor="rang"))["error"]
    assert "rang" in error
    assert "range" in error
    assert "roundrobin" in error


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("json:loads", "json:loads is not an assignor; it lacks name"),
        (".json:loads", ".json:loads cannot be imported: TypeError: "),
        ("{module}:Any", "{module}:Any cannot be imported: SystemExit: 3"),
    ],
)
def test_errors_of_imported_modules_are_reported(
    name: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving_at_import.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    name, error = (text.format(module="leaving_at_import") for text in (name, error))
    assert assigned(case(assignor=name))["error"].startswith(error)


def test_each_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[str] = []

    def resolve(name: str) -> Spy:
        resolved.append(name)
        if name == "none":
            raise AssignorNotFound("unknown")
        return Spy()

    monkeypatch.setattr(cases, "resolve", resolve)
    bounds = cases.resolve_cached.cache_parameters()
    assert bounds["maxsize"] == 1_000
    resolve_cached = lru_cache(**bounds)(cases.resolve_cached.__wrapped__)
    monkeypatch.setattr(cases, "resolve_cached", resolve_cached)
    for name in ("one", "none", "one", "none"):
        assigned(case(assignor=name))
    assert resolved == ["one", "none"]


def test_no_nesting_is_too_deep_for_an_error() -> None:
    for depth in range(500, 1000):
        nested = b'{"assignor": ' + b"[" * depth + b"]" * depth + b"}"
        assert set(json.loads(run_case(nested))) == {"error"}


def test_long_values_are_cut_in_errors() -> None:
    error = assigned(member(rack=list(range(1_000))))["error"]
    assert error.startswith("invalid rack of C0: [0, 1, 2,")
    assert len(error) < 120


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (ValueError("no weights"), "assignor spy failed: ValueError: no weights"),
        (ZeroDivisionError(), "assignor spy failed: ZeroDivisionError"),
        (None, "assignor spy failed: AttributeError: 'NoneType' object has no attribute 'keys'"),
        ({"C0": None}, "assignor spy failed: TypeError: 'NoneType' object is not iterable"),
        ({}, "assignor spy omitted member C0"),
        ({"C0": [], "C9": []}, "assignor spy returned unknown member C9"),
        ({"C0": [("t0", 3)]}, "assignor spy assigned t0-3, which does not exist"),
        ({"C0": [("t9", 0)]}, "assignor spy assigned t9-0, which does not exist"),
        ({"C0": [("t0", 0), ("t0", 0)]}, "assignor spy assigned t0-0 twice"),
    ],
)
def test_an_assignor_that_fails_fails_only_its_case(
    result: Any, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "resolve_cached", lambda name: Returning(result))
    assert assigned(member()) == {"error": error}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*cases.CASE_FIELDS, *cases.MEMBER_FIELDS]), inner)
    ),
    max_leaves=8,
)


@given(JSON | st.builds(member, topics=JSON, owned=JSON, generation=JSON, rack=JSON))
def test_any_json_gets_one_line_of_json(content: Any) -> None:
    results = io.StringIO()
    run_cases(io.BytesIO(line(content)), results)
    (result,) = results.getvalue().splitlines()
    assert isinstance(json.loads(result), dict)


@given(st.binary(max_size=30).filter(lambda junk: b"\n" not in junk))
def test_random_bytes_get_an_error(junk: bytes) -> None:
    assert list(json.loads(run_case(junk + b"\n"))) == ["error"]


def test_each_line_has_a_result_and_the_last_needs_no_newline() -> None:
    results = io.StringIO()
    invalid = b"nonsense\n"
    run_cases(io.BytesIO(line(case()) + invalid + b"\n" + line(member()).rstrip()), results)
    first, second, third, fourth = map(json.loads, results.getvalue().splitlines())
    assert [list(result) for result in (first, second, third, fourth)] == [
        ["C0", "C1"],
        ["error"],
        ["error"],
        ["C0"],
    ]


def test_a_line_that_is_too_long_is_skipped_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "CASE_BYTES_MAX", len(line(case())))
    monkeypatch.setattr(command, "SKIP_BYTES", 7)
    results = io.StringIO()
    long = b"1" * 999 + b"\n"
    run_cases(io.BytesIO(line(case()) + long + line(case()) + long.rstrip()), results)
    first, second, third, fourth = map(json.loads, results.getvalue().splitlines())
    assert first == third
    assert list(first) == ["C0", "C1"]
    assert second == fourth == {"error": f"line longer than {len(line(case()))} bytes"}


def test_a_result_is_written_before_the_next_case_is_read() -> None:
    """A program may wait for the output of a case before it sends the next one."""
    kohort = (sys.executable, "-m", "kohort", "assign", "--cases", "-")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        kohort, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=buffered
    ) as process:
        deadline = Timer(60, process.kill)
        deadline.start()
        assert process.stdin is not None
        assert process.stdout is not None
        for content in (case(), [], case()):
            process.stdin.write(line(content))
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == assigned(content)
        process.stdin.close()
        assert process.wait() == 0
        deadline.cancel()
