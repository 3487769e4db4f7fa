"""Limits of concurrent work (protocol/budgets.py): a request above the limit waits."""

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import pytest
from kohort.broker.security import quotas
from kohort.log import codecs
from kohort.log.batch import HEADER_BYTES, assemble, read_header
from kohort.log.codecs import compress
from kohort.log.tasks import in_thread
from kohort.protocol.budgets import (
    DECOMPRESSIONS_MAX,
    FIRST_STEPS_MAX,
    HOST_LOOKUPS_MAX,
    REGEX_MATCHES_MAX,
)
from support.broker import BrokerHarness, batch
from support.coordinator import FixedTopics, consumer_heartbeat
from support.runtime import RuntimeHarness

GZIP = 1


class Concurrency:
    """Counts how many tasks of a generator function run at the same time."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0

    def of(self, task: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
        @wraps(task)
        def counted(*args: Any) -> Generator[Any, Any, Any]:
            self.all += 1
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                for _ in range(FIRST_STEPS_MAX):
                    yield None  # other tasks may begin
                return (yield from task(*args))
            finally:
                self.now -= 1

        return counted


@pytest.fixture
def concurrency() -> Concurrency:
    return Concurrency()


@pytest.mark.interpreted
def test_large_batches_are_decompressed_a_few_at_a_time(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codecs, "in_thread", concurrency.of(in_thread))
    broker = BrokerHarness()
    partitions = DECOMPRESSIONS_MAX + 1
    broker.create_topic("table", partitions, cleanup_policy="compact")
    sent = batch(bytes(600_000))
    header = read_header(sent)._replace(attributes=GZIP)
    compressed = assemble(header, compress(GZIP, sent[HEADER_BYTES:]))
    requests = [broker.send_produce("table", {index: compressed}) for index in range(partitions)]
    broker.run_loop()
    assert [each.response.responses[0].partition_responses[0].error_code for each in requests] == [
        0
    ] * partitions
    assert (concurrency.most, concurrency.all) == (DECOMPRESSIONS_MAX, partitions)


def test_regular_expressions_are_matched_for_a_few_groups_at_a_time(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = FixedTopics.matcher
    monkeypatch.setattr(FixedTopics, "matcher", lambda *args: concurrency.of(matcher(*args)))
    harness = RuntimeHarness()
    groups = [f"group-{number}" for number in range(REGEX_MATCHES_MAX + 1)]
    for group in groups:
        join = consumer_heartbeat("a", 0, (), group_id=group, regex="ord.*", rebalance_ms=1)
        harness.submit(group, join)
    harness.run_loop()
    harness.timers.advance(0)
    harness.run_loop()
    assert [harness.results[group].error_code for group in groups] == [0] * len(groups)
    assert (concurrency.most, concurrency.all) == (REGEX_MATCHES_MAX, len(groups))


def test_host_names_are_looked_up_a_few_at_a_time(
    concurrency: Concurrency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "in_thread", concurrency.of(in_thread))
    broker = BrokerHarness()
    op = {"key": "connection_creation_rate", "value": 1.0, "remove": False}
    requests = [
        broker.send(
            "AlterClientQuotas",
            1,
            entries=[
                {"entity": [{"entity_type": "ip", "entity_name": f"10.0.0.{n}"}], "ops": [op]}
            ],
        )
        for n in range(HOST_LOOKUPS_MAX + 1)
    ]
    broker.run_loop()
    assert [each.response.entries[0].error_code for each in requests] == [0] * len(requests)
    assert (concurrency.most, concurrency.all) == (HOST_LOOKUPS_MAX, len(requests))
