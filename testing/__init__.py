"""The test harness: a broker that a test starts, inspects and controls, for real clients.

    with Kafka() as kafka:
        kafka.topic("orders", partitions=3).produce([b"a", b"b"])
        start_my_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_stable(members=1)

Read kafka.py first: it composes the parts.

    kafka             Kafka: the object that a test uses
    lifecycle         the broker of a Kafka: start, stop, crash, restart, snapshot, fork
    presets           the configuration of the broker
    loop_thread       the broker's event loop in a thread, and waits for it from other threads
    deadline          the deadline of a wait; time in which the process had no CPU does not count

    topic             a topic and its records
    group             a consumer group: state, offsets, lag, waits
    group_view        a group as seen by its coordinator, with one interface for both protocols
    group_control     how a test controls a group: rebalance, evict, hold requests, keep loading
    transactions      transactions: state, waits, abort, markers held back by the test
    transaction_view  transactions as seen by their coordinators and partitions
    explanation/      what a group or a transaction is waiting for, why a client could not connect
    fake_members/     scripted members, so that one real consumer is enough
    clock             the broker's clock: freeze, advance

    interceptor       sees every request before its handler; may hold, answer or drop it
    recorded_request  a request as tests see it, independent of its version
    faults/           request, network and disk faults; a fault that never fires fails the test

    security          certificates, client settings for TLS and SASL, quotas
    oauth_tokens      tokens for SASL OAUTHBEARER

    history           requests, events, commits as data
    generations       the history's generations, and the partitions that members owned
    timeline/         the history as text for the report of a failed test, and as an HTML page
    client_checks     client mistakes, found in the history

    aio               AsyncKafka: waits are coroutines
    container         KafkaContainer: a replacement for testcontainers
    backend           whether tests start their own brokers or use a real cluster
    real_cluster      a real cluster with the interface of Kafka
    kafka_python/     topics and groups of a real cluster, through kafka-python
    plugin            the pytest plugin
    tracebacks        removes the harness from the tracebacks of failed tests
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncKafka, NotAwaited
    from .backend import kafka_for_test
    from .client_checks import ClientCheckError
    from .container import KafkaContainer
    from .fake_members.fake_member import FakeMemberRejected
    from .faults.faults import UnusedFault
    from .kafka import Kafka
    from .loop_thread import BarrierTimeout
    from .plugin import ClientCheckWarning

__all__ = [
    "AsyncKafka",
    "BarrierTimeout",
    "ClientCheckError",
    "ClientCheckWarning",
    "FakeMemberRejected",
    "Kafka",
    "KafkaContainer",
    "NotAwaited",
    "UnusedFault",
    "kafka_for_test",
]

_MODULES = {
    "AsyncKafka": "aio",
    "BarrierTimeout": "loop_thread",
    "ClientCheckError": "client_checks",
    "ClientCheckWarning": "plugin",
    "FakeMemberRejected": "fake_members.fake_member",
    "Kafka": "kafka",
    "KafkaContainer": "container",
    "NotAwaited": "aio",
    "UnusedFault": "faults.faults",
    "kafka_for_test": "backend",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Lazy: pytest imports the plugin, and this package with it, at startup.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
