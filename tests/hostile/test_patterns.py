"""Regular expressions that are slow to compile."""

from contextlib import ExitStack

import pytest

from .conftest import FULL


@pytest.mark.parametrize(
    ("size", "error"),
    [(32_000, "invalid_regular_expression"), (995, "none")],
    ids=["long", "compiled"],
)
@pytest.mark.parametrize(
    "part", ["[\0-\uffff]", "(?:a|b)*", r"\d"], ids=["class", "repetition", "escape"]
)
def test_a_pattern_that_is_slow_to_compile(attack, part, size, error):
    target = attack()
    pattern = "(?i)" + part * (size // len(part.encode()))
    with target.client() as client:
        for _ in range(5):
            response = client.call("ListTransactions", 2, transactional_id_pattern=pattern)
            assert response["error_code"] == error


@pytest.mark.parametrize("connections", [1, 30])
def test_thousands_of_pipelined_requests_with_a_pattern(attack, connections):
    """Each takes a millisecond: together they would stop the event loop for seconds."""
    target = attack()
    count = 3_000 if FULL else 300
    with ExitStack() as opened:
        clients = [opened.enter_context(target.client()) for _ in range(connections)]
        requests = [b""] * connections
        for number in range(count):
            requests[number % connections] += clients[number % connections].encode(
                "ListTransactions", 2, transactional_id_pattern=f"(a|b){{1,300}}{number}"
            )
        for client, frames in zip(clients, requests, strict=True):
            client.socket.sendall(frames)
        for number in range(count):
            assert clients[number % connections].receive()["error_code"] == "none"


def test_expressions_of_a_consumer_group_that_are_slow_to_match(attack):
    target = attack()
    topics, members = (200, 30) if FULL else (40, 10)
    names = [f"{'ab' * 100}-{number}" for number in range(topics)]
    with target.client() as client:
        for start in range(0, topics, 1_000):
            client.create_topics(*names[start : start + 1_000])
        heartbeat = {"group_id": "slow", "rebalance_timeout": 60_000, "topic_partitions": []}
        for number in range(members):
            regex = f"(x|[a-y]*.*){{1,30}}[ab].{{1,40}}{number}"
            joined = client.call(
                "ConsumerGroupHeartbeat",
                1,
                **heartbeat,
                member_id=f"member-{number}",
                member_epoch=0,
                subscribed_topic_regex=regex,
            )
            assert joined["error_code"] == "none"
        epoch = joined["member_epoch"]
        while joined["assignment"] is None or not joined["assignment"]["topic_partitions"]:
            joined = client.call(
                "ConsumerGroupHeartbeat",
                1,
                group_id="slow",
                member_id=f"member-{members - 1}",
                member_epoch=epoch,
            )
            assert joined["error_code"] == "none"
            epoch = joined["member_epoch"]
