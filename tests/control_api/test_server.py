"""The HTTP server: invalid requests, limits, waiting requests."""

import contextlib
import http.client
import importlib
import json
import select
import socket
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

import pytest
from kohort.cli.health import count_apis
from kohort.control_api.endpoints import ENDPOINTS
from kohort.control_api.server import BODY_BYTES_MAX, WAITING_MAX, ControlServer
from kohort.testing import Kafka

from .conftest import ApiClient


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "message"),
    [
        ("POST", "/topics/o", {"partition": 1}, 400, "unknown field 'partition': did you mean p"),
        ("POST", "/topics/o", {"partitions": "3"}, 400, "invalid partitions: expected int | null,"),
        ("POST", "/topics/o", {"partitions": 0}, 400, "invalid partitions: expected int >= 1, go"),
        ("POST", "/topics/o", {"partitions": 10**9}, 400, "invalid partitions: expected int <= 1"),
        ("POST", "/topics/o", {"partitions": True}, 400, "invalid partitions: expected int | null"),
        ("POST", "/topics/o", {"config": {"a": 1}}, 400, "invalid config[...]: expected str, got "),
        ("POST", "/topics/o", {"config": {"retention.ms": "x"}}, 400, "Topic o: INVALID_CONFIG:"),
        ("POST", "/topics/o", {"topic": "p"}, 400, "unknown field 'topic'; known fields: part"),
        ("POST", "/topics/a%20b", {}, 400, "Topic a b: INVALID_TOPIC"),
        ("POST", "/topics/o/records", {}, 400, "missing field 'values'"),
        ("POST", "/topics/o/records", {"values": ["a"]}, 404, "Topic o does not exist"),
        ("POST", "/topics/o/records", {"values": ["a"], "keys": []}, 400, "invalid keys: 0 keys "),
        (
            "POST",
            "/topics/o/records",
            {"values": [1]},
            400,
            "invalid values[0]: expected str | nul",
        ),
        ("POST", "/topics/o/records", {"values": ["!"], "encoding": "base64"}, 400, ""),
        (
            "POST",
            "/topics/o/records",
            {"values": [""] * 10001},
            400,
            "invalid values: expected arr",
        ),
        ("GET", "/topics/o/records?limit=many", {}, 400, "invalid limit: expected int, got str"),
        ("GET", "/topics/o/records?limit=0", {}, 400, "invalid limit: expected int >= 1, got '0'"),
        (
            "POST",
            "/faults",
            {"action": "trottle", "api": "Fetch"},
            400,
            (
                "invalid action: expected one of answer, delay, delay_answer, never_answer, drop, "
                "lose_answer, apply_late, close_mid_frame, trickle, corrupt, throttle, "
                "got 'trottle': did you mean throttle?"
            ),
        ),
        ("GET", "/groups?state=Stable", {}, 400, "unknown field 'state'; known fields: none"),
        ("POST", "/reset?force=yes", {}, 400, "POST takes its parameters from a JSON body, not a"),
        (
            "POST",
            "/groups/g/wait",
            {"until": "idle"},
            400,
            "invalid until: expected one of stable,",
        ),
        (
            "POST",
            "/groups/g/wait",
            {"until": "owner"},
            400,
            "missing field 'topic': required with ",
        ),
        ("POST", "/groups/g/wait", {"until": "gone", "member": "a"}, 400, "invalid member: not us"),
        ("POST", "/groups/g/wait", {"until": "gone", "timeout": 1e9}, 400, "invalid timeout: expe"),
        (
            "POST",
            "/groups/g/expire",
            {"member": "a"},
            400,
            "Group g has no member 'a'; its members",
        ),
        ("POST", "/groups/g/move", {"node_id": 7}, 404, ""),
        (
            "POST",
            "/clock/advance",
            {"days": -1},
            400,
            "invalid days: expected float >= 0.0, got -1",
        ),
        (
            "POST",
            "/clock/advance",
            {"seconds": 10**400},
            400,
            "invalid seconds: number out of range",
        ),
        ("POST", "/faults", {"action": "answer", "api": "Fetch"}, 400, "missing field 'error': re"),
        ("POST", "/faults", {"action": "drop", "api": "Fetsch"}, 400, "Unknown API 'Fetsch': did "),
        ("POST", "/faults", {"action": "drop", "api": "Fetch", "ms": 1}, 400, "invalid ms: not us"),
        ("POST", "/faults", {"action": "delay", "api": "Fetch"}, 400, "The delay must be positive"),
        ("POST", "/clock/advance", {"days": 3661}, 400, "invalid days: expected float <= 3660.0"),
        ("GET", "/requests?api=Fetsch", {}, 400, "Unknown API 'Fetsch': did you mean Fetch?"),
        ("GET", "/groups/g/lag", {}, 400, "missing field 'topic'"),
        ("GET", "/groups/g/lag?topic=o", {}, 404, "Topic o does not exist"),
        ("POST", "/groups/g/fake-members", {"topics": ["\ud800"]}, 400, "the body is not a JSON "),
        ("POST", "/topics/o", {"config": {"\ud800": "1"}}, 400, "the body is not a JSON object:"),
        ("POST", "/topics/o/records", {"values": ["a"], "headers": {"h": 1}}, 400, "invalid head"),
        ("GET", "/faults/one", {}, 400, "invalid fault: expected int, got str"),
        ("DELETE", "/holds/1", {}, 404, "hold 1 does not exist; existing: none"),
        ("GET", "/nowhere", {}, 404, "no endpoint /nowhere: / lists all endpoints"),
        ("DELETE", "/reset", {}, 405, "/reset does not support DELETE, only POST"),
    ],
)
def test_invalid_requests_are_rejected_with_a_message(
    api: ApiClient, method: str, path: str, given: dict[str, object], status: int, message: str
) -> None:
    error = api.error(method, path, **given)
    assert error[0] == status, error
    assert error[1].startswith(message), error
    assert error[1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the body is not a JSON object: "),
        (b"\xff", "the body is not a JSON object: "),
        (b"[" * 100_000, "the body is not a JSON object: "),
        (b"[]", "the body is not a JSON object: "),
        (b'{"seconds": NaN}', "the body is not a JSON object: "),
        (b'{"seconds": 1e999}', "the body is not a JSON object: "),
    ],
)
def test_a_body_that_is_not_json_is_rejected(api: ApiClient, body: bytes, message: str) -> None:
    status, _, received = api.raw("POST", "/clock/advance", body)
    assert status == 400
    assert json.loads(received)["error"].startswith(message)


def test_the_size_of_a_body_is_limited(api: ApiClient) -> None:
    status, _, received = api.raw("POST", "/clock/advance", b" " * (BODY_BYTES_MAX + 1))
    assert status == 413
    assert json.loads(received)["error"] == f"the body is larger than {BODY_BYTES_MAX} bytes"


def test_responses_on_an_open_connection_are_not_delayed(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body must not wait for the acknowledgement of the header, as it does by default."""
    accepted = list[socket.socket]()
    accept = socket.socket.accept

    def recorded(listening: socket.socket) -> tuple[socket.socket, object]:
        connection, peer = accept(listening)
        accepted.append(connection)
        return connection, peer

    monkeypatch.setattr(socket.socket, "accept", recorded)
    connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", "/topics")
        assert connection.getresponse().status == 200
        assert accepted[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_percent_encoded_slash_is_part_of_a_name(api: ApiClient) -> None:
    path = "/groups/a%2Fexplain"
    api("POST", f"{path}/fake-members", topics=["orders"])
    assert api("GET", path).body["group"] == "a/explain"


@pytest.mark.parametrize(
    ("header", "value", "problem"),
    [
        ("Origin", "http://elsewhere", "web pages are rejected (origin http://elsewhere)"),
        ("Sec-Fetch-Site", "cross-site", "web pages are rejected (origin cross-site)"),
        ("Sec-Fetch-Site", "same-origin", "web pages are rejected (origin same-origin)"),
    ],
)
def test_requests_of_web_pages_change_nothing(
    api: ApiClient, header: str, value: str, problem: str
) -> None:
    """A web page in the browser of a developer may try local addresses."""
    api("POST", "/topics/orders", partitions=1)
    status, _, received = api.raw("POST", "/reset", headers={header: value})
    assert status == 403
    assert problem in json.loads(received)["error"]
    assert api("GET", "/topics").body == {"topics": ["orders"]}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:9093",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "com.",
        "[::1",
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/topics"), ("GET", "/"), ("POST", "/reset")])
def test_web_pages_cannot_read_by_dns_rebinding(
    api: ApiClient, method: str, path: str, host: str
) -> None:
    status, _, received = api.raw(method, path, headers={"Host": host})
    assert status == 403
    assert json.loads(received)["error"].startswith(f"unknown host {host}: use localhost")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9093",
        "a.localhost",
        "[::1]:9093",
        "192.168.1.2",
        "broker:9093",
        "host.docker.internal:9093",
    ],
)
def test_local_hosts_are_accepted(api: ApiClient, host: str) -> None:
    assert api.raw("GET", "/topics", headers={"Host": host})[0] == 200


def test_the_host_that_it_listens_on_is_accepted(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening = socket.create_server
    local = ("127.0.0.1", 0)
    monkeypatch.setattr(socket, "create_server", lambda _, family: listening(local, family=family))
    with ControlServer(api.control, "Broker.Example", 0) as server:
        port = urlsplit(server.url).port
        client = ApiClient(api.control, f"http://127.0.0.1:{port}")
        assert client.raw("GET", "/topics", headers={"Host": "broker.example"})[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_listening_beyond_this_machine_needs_a_token(api: ApiClient, host: str) -> None:
    with pytest.raises(ValueError, match=f"the control API on {host} needs a token") as error:
        ControlServer(api.control, host, 0)
    assert "set KOHORT_CONTROL_TOKEN or --control-token, or listen on 127" in str(error.value)
    with ControlServer(api.control, host, 0, "secret") as server:
        port = urlsplit(server.url).port
        local = "127.0.0.1" if host == "0.0.0.0" else "[::1]"
        client = ApiClient(api.control, f"http://{local}:{port}")
        headers = {"Authorization": "Bearer secret"}
        assert client.raw("GET", "/topics", headers=headers)[0] == 200


@pytest.mark.parametrize("token", ["", "two words", "naïve", "line\n"])
def test_a_token_that_no_header_can_contain_is_rejected(api: ApiClient, token: str) -> None:
    with pytest.raises(ValueError, match="invalid token: expected visible ASCII characters"):
        ControlServer(api.control, "127.0.0.1", 0, token)


@pytest.mark.parametrize(
    ("authorization", "problem"),
    [
        (None, "missing"),
        ("Basic c2VjcmV0", "wrong"),
        ("Bearer", "missing"),
        ("Bearer secre", "wrong"),
        ("Bearer secret2", "wrong"),
        ("Bearer s\xe9cret", "wrong"),
        ("secret", "missing"),
    ],
)
def test_every_request_needs_the_token(
    api: ApiClient, authorization: str | None, problem: str
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    requests = (
        ("GET", "/"),
        ("GET", "/openapi.json"),
        ("POST", "/reset"),
        ("GET", "/schema-registry/x"),
    )
    with ControlServer(api.control, "127.0.0.1", 0, "secret") as server:
        client = ApiClient(api.control, server.url)
        for method, path in requests:
            status, _, received = client.raw(method, path, headers=headers)
            assert (status, path) == (401, path)
            assert f"the token is {problem}: send the header Authorization: Bearer" in str(received)


def test_requests_with_the_token_are_handled(api: ApiClient) -> None:
    with ControlServer(api.control, "127.0.0.1", 0, "s!cret~") as server:
        client = ApiClient(api.control, server.url)
        for scheme in ("Bearer", "bearer"):
            headers = {"Authorization": f"{scheme} s!cret~"}
            assert client.raw("GET", "/topics", headers=headers)[0] == 200
        page = client.raw("GET", "/", headers=headers)[2].decode()
        assert "Authorization: Bearer TOKEN" in page
        web_page = {**headers, "Origin": "http://elsewhere"}
        assert client.raw("POST", "/reset", headers=web_page)[0] == 403
    assert "The server has no token" in api.raw("GET", "/")[2].decode()


def test_a_bug_is_a_server_error(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise KeyError("a bug")

    (groups,) = (each for each in ENDPOINTS if each.path == "/groups")
    monkeypatch.setattr(groups, "function", fails)
    assert api.error("GET", "/groups") == (500, "'a bug'")
    assert "/groups failed" in caplog.text


def test_a_disconnected_client_stops_waiting(api: ApiClient) -> None:
    body = json.dumps({"api": "ApiVersions", "timeout": 600}).encode()
    for _ in range(2):
        for _ in range(WAITING_MAX):
            connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=30)
            connection.request("POST", "/requests/wait", body)
            connection.close()
        deadline = time.monotonic() + 30
        while api("POST", "/requests/wait", api="ApiVersions", timeout=0.01).status != 408:
            assert time.monotonic() < deadline


def test_waiting_requests_are_limited_and_block_no_others(api: ApiClient, kafka: Kafka) -> None:
    """Method: send more waiting requests than the limit, until the excess is rejected; then send
    another request, and the one that the others wait for."""
    more = 5
    body = json.dumps({"api": "ApiVersions", "timeout": 30}).encode()
    with contextlib.ExitStack() as stack:
        waiting = []
        for _ in range(WAITING_MAX + more):
            connection = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=30)
            stack.callback(connection.close)
            connection.request("POST", "/requests/wait", body)
            waiting.append(connection)
        answered: list[object] = []
        deadline = time.monotonic() + 30
        while len(answered) < more:
            assert time.monotonic() < deadline
            answered = select.select([each.sock for each in waiting], [], [], 1)[0]
        assert api("GET", "/clock").status == 200
        count_apis(next(iter(kafka.broker.addresses.values())), 30)
        statuses = Counter(connection.getresponse().status for connection in waiting)
        assert statuses == {200: WAITING_MAX, 503: more}


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "kohort.control_api.server")
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs msgspec: run pip install './kohort\[con"):
        importlib.import_module("kohort.control_api.server")
