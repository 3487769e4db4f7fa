"""The control port of a broker: requests that a web page makes a developer's browser send, and a
clock that advances by years."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from .conftest import FULL, Target

PAGES = 200 if FULL else 5
YEARS = 10 if FULL else 2
SESSION_MS_MAX = 2**31 - 1

# Headers that a browser adds to requests of a page at another address; of a page at a host name
# whose DNS entry changes to 127.0.0.1 once the page is loaded; and of the latter without Origin.
PAGE_HEADERS = (
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example:9093", "Origin": "http://evil.example:9093"},
    {"Host": "evil.example:9093"},
    {"Sec-Fetch-Site": "cross-site"},
)
# Each request would remove the neighbor or the topic.
CHANGES = (
    ("POST", "/reset", {}),
    ("POST", "/clock/advance", {"days": 1}),
    ("POST", "/groups/neighbor/rebalance", {}),
    ("DELETE", "/topics/orders", {}),
)
# A page whose host name changed would receive the names of the topic and the group.
READS = (("GET", "/topics", {}), ("GET", "/groups", {}), ("GET", "/requests", {}), ("GET", "/", {}))


@pytest.fixture
def target(attack) -> Target:
    flags = ("--control-port", "0", "--control-preset", "instant")
    longest = f"group.max.session.timeout.ms={SESSION_MS_MAX}"
    return attack(*flags, "-o", longest, in_memory=True, session_ms=SESSION_MS_MAX)


class Control:
    """The control API at a URL, over one connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def send(self, method: str, path: str, given: object, **headers: str) -> tuple[int, bytes]:
        self._connection.request(method, path, json.dumps(given) if given else None, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def __call__(self, method: str, path: str, **given: object) -> dict[str, Any]:
        status, body = self.send(method, path, given)
        assert status == 200, body
        return dict(json.loads(body))


def test_web_pages_neither_read_nor_change_anything(target) -> None:
    control = Control(target.broker.control_url())
    control("POST", "/topics/orders", partitions=1)
    for _ in range(PAGES):
        for headers in PAGE_HEADERS:
            is_foreign = "Host" in headers
            for method, path, given in (*CHANGES, *(READS if is_foreign else ())):
                status, body = control.send(method, path, given, **headers)
                assert status == 403, (method, path, headers, body)
                assert not any(name in body for name in (b"orders", b"neighbor"))
    assert "orders" in control("GET", "/topics")["topics"]


def test_fake_members_live_for_years_of_the_clock(target) -> None:
    """The clock waits for the neighbor's heartbeats; its session lasts 24 days."""
    control = Control(target.broker.control_url())
    control("POST", "/topics/orders", partitions=1)
    fakes = [
        control("POST", f"/groups/{each}/fake-members", topics=["orders"], protocol=each)
        for each in ("classic", "consumer")
    ]
    before = control("GET", "/clock")["now_ms"]
    after = control("POST", "/clock/advance", days=365 * YEARS, heartbeats=True)["now_ms"]
    assert after - before >= YEARS * 365 * 86_400_000
    for fake in fakes:
        found = control("GET", f"/fake-members/{fake['fake_member']}")
        assert (found["generation"], found["errors"]) == (fake["generation"], [])
