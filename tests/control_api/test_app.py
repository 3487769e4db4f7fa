"""What is asked wrongly, or too often, is told in a sentence."""

import contextlib
import http.client
import json
import select
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
from kohort.cli.health import count_apis
from kohort.control_api.app import BODY_BYTES_MAX, WAITING_MAX
from kohort.control_api.endpoints import ENDPOINTS
from kohort.testing import Kafka

from .conftest import Asker


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "sentence"),
    [
        ("POST", "/topics/o", {"partition": 1}, 400, "there is no field partition here; there is:"),
        ("POST", "/topics/o", {"partitions": "3"}, 400, "partitions is a whole number or null,"),
        ("POST", "/topics/o", {"partitions": 0}, 400, "partitions is at least 1, not 0"),
        ("POST", "/topics/o", {"partitions": 10**9}, 400, "partitions is at most 10000, not 10000"),
        ("POST", "/topics/o", {"partitions": True}, 400, "partitions is a whole number or null, n"),
        ("POST", "/topics/o", {"config": {"a": 1}}, 400, "config.a is a text, not 1"),
        ("POST", "/topics/o", {"config": {"retention.ms": "x"}}, 400, "topic o: INVALID_CONFIG:"),
        ("POST", "/topics/o", {"topic": "p"}, 400, "topic stands in the path, and not in the body"),
        ("POST", "/topics/a%20b", {}, 400, "topic a b: INVALID_TOPIC"),
        ("POST", "/topics/o/records", {}, 400, "values is missing"),
        ("POST", "/topics/o/records", {"values": ["a"]}, 404, "there is no topic o"),
        ("POST", "/topics/o/records", {"values": ["a"], "keys": []}, 400, "there are 0 keys for 1"),
        ("POST", "/topics/o/records", {"values": [1]}, 400, "values[0] is a text or null, not 1"),
        ("POST", "/topics/o/records", {"values": ["!"], "encoding": "base64"}, 400, ""),
        (
            "POST",
            "/topics/o/records",
            {"values": [""] * 10001},
            400,
            "values is at most 10000 item",
        ),
        ("GET", "/topics/o/records?limit=many", {}, 400, "limit is a whole number, not 'many'"),
        ("GET", "/topics/o/records?limit=0", {}, 400, "limit is at least 1, not 0"),
        ("GET", "/groups?state=Stable", {}, 400, "there is no field state here; there is: none"),
        ("POST", "/reset?force=yes", {}, 400, "a POST is given JSON in its body, and no query"),
        ("POST", "/groups/g/wait", {"until": "idle"}, 400, "until is one of stable, generation, "),
        ("POST", "/groups/g/wait", {"until": "owner"}, 400, "to wait until owner needs topic"),
        (
            "POST",
            "/groups/g/wait",
            {"until": "gone", "who": "a"},
            400,
            "to wait until gone takes n",
        ),
        (
            "POST",
            "/groups/g/wait",
            {"until": "gone", "timeout": 1e9},
            400,
            "timeout is at most 600",
        ),
        ("POST", "/groups/g/expire", {"who": "a"}, 400, "g has no member a; there is: nobody"),
        (
            "POST",
            "/groups/g/move",
            {"node_id": 7},
            404,
            "node 7 does not exist: the nodes are [1, 2]",
        ),
        ("POST", "/clock/advance", {"days": -1}, 400, "days is at least 0, not -1"),
        ("POST", "/clock/advance", {"seconds": 10**400}, 400, "seconds is at most"),
        (
            "POST",
            "/faults",
            {"deed": "answer", "api": "Fetch"},
            400,
            "say which error to answer wi",
        ),
        (
            "POST",
            "/faults",
            {"deed": "drop", "api": "Fetsch"},
            400,
            "there is no API called Fetsch",
        ),
        (
            "POST",
            "/faults",
            {"deed": "drop", "api": "Fetch", "ms": 1},
            400,
            "drop takes no seconds",
        ),
        (
            "POST",
            "/faults",
            {"deed": "delay", "api": "Fetch"},
            400,
            "say how long: seconds=… or ms",
        ),
        ("POST", "/clock/advance", {"days": 3661}, 400, "days is at most 3660"),
        ("GET", "/requests?api=Fetsch", {}, 400, "there is no API called Fetsch: did you mean Fet"),
        ("GET", "/groups/g/lag", {}, 400, "topic is missing"),
        ("GET", "/groups/g/lag?topic=o", {}, 404, "there is no topic o"),
        ("POST", "/groups/g/puppets", {"topics": ["\ud800"]}, 400, "topics[0] has a letter that "),
        ("POST", "/topics/o", {"config": {"\ud800": "1"}}, 400, "a name in config has a letter"),
        ("POST", "/topics/o/records", {"values": ["a"], "headers": {"h": 1}}, 400, "headers.h is "),
        ("GET", "/faults/one", {}, 400, "fault is a whole number, not 'one'"),
        ("DELETE", "/holds/1", {}, 404, "there is no hold 1; there is: none"),
        ("GET", "/nowhere", {}, 404, "there is nothing at /nowhere; / tells what there is"),
        ("DELETE", "/reset", {}, 405, "/reset is for POST, not for DELETE"),
    ],
)
def test_what_is_asked_wrongly_is_told(
    ask: Asker, method: str, path: str, given: dict[str, object], status: int, sentence: str
) -> None:
    said = ask.refused(method, path, **given)
    assert said[0] == status, said
    assert said[1].startswith(sentence)
    assert said[1]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "the body is no JSON: "),
        (b"\xff", "the body is no JSON: "),
        (b"[" * 100_000, "the body is no JSON: "),
        (b"[]", "the body is no JSON object"),
        (b'{"seconds": NaN}', "seconds is a number, not nan"),
        (b'{"seconds": 1e999}', "seconds is a number, not inf"),
    ],
)
def test_a_body_that_is_no_json_is_told(ask: Asker, body: bytes, sentence: str) -> None:
    status, _, said = ask.raw("POST", "/clock/advance", body)
    assert status == 400
    assert json.loads(said)["error"].startswith(sentence)


def test_a_body_is_not_read_without_end(ask: Asker) -> None:
    status, _, said = ask.raw("POST", "/clock/advance", b" " * (BODY_BYTES_MAX + 1))
    assert status == 413
    assert json.loads(said)["error"] == f"the body has more than {BODY_BYTES_MAX} bytes"


def test_a_name_with_a_slash_is_one_segment(ask: Asker) -> None:
    assert ask("GET", "/groups/a%2Fstory").body["group"] == "a/story"


def test_a_page_of_another_origin_steers_nothing(ask: Asker) -> None:
    """A developer has both open: the tests, and some page of the web that tries addresses."""
    ask("POST", "/topics/orders", partitions=1)
    status, _, said = ask.raw("POST", "/reset", headers={"Origin": "http://elsewhere"})
    assert status == 403
    assert "a page of http://elsewhere may not" in json.loads(said)["error"]
    assert ask("GET", "/topics").body == {"topics": ["orders"]}


def test_a_fault_of_ours_is_an_error_of_the_server(
    ask: Asker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise KeyError("a bug")

    (groups,) = (each for each in ENDPOINTS if each.path == "/groups")
    monkeypatch.setattr(groups, "function", fails)
    assert ask.refused("GET", "/groups") == (500, "'a bug'")
    assert "/groups failed" in caplog.text


def test_who_has_gone_takes_no_place_of_those_that_wait(ask: Asker) -> None:
    body = json.dumps({"api": "ApiVersions", "timeout": 600}).encode()
    for _ in range(2):
        for _ in range(WAITING_MAX):
            connection = http.client.HTTPConnection(urlsplit(ask.url).netloc, timeout=30)
            connection.request("POST", "/requests/wait", body)
            connection.close()
        deadline = time.monotonic() + 30
        while ask("POST", "/requests/wait", api="ApiVersions", timeout=0.01).status != 408:
            assert time.monotonic() < deadline


def test_requests_that_wait_hold_up_no_others_and_are_bounded(ask: Asker, kafka: Kafka) -> None:
    """Goal: a barrier costs nobody else an answer. Method: some more wait than may, until so many
    are refused; then something else is asked, and what the others wait for happens."""
    more = 5
    body = json.dumps({"api": "ApiVersions", "timeout": 30}).encode()
    with contextlib.ExitStack() as stack:
        waiting = []
        for _ in range(WAITING_MAX + more):
            connection = http.client.HTTPConnection(urlsplit(ask.url).netloc, timeout=30)
            stack.callback(connection.close)
            connection.request("POST", "/requests/wait", body)
            waiting.append(connection)
        answered: list[object] = []
        deadline = time.monotonic() + 30
        while len(answered) < more:
            assert time.monotonic() < deadline
            answered = select.select([each.sock for each in waiting], [], [], 1)[0]
        assert ask("GET", "/clock").status == 200
        count_apis(next(iter(kafka.broker.addresses.values())), 30)
        statuses = Counter(connection.getresponse().status for connection in waiting)
        assert statuses == {200: WAITING_MAX, 503: more}
