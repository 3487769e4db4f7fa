"""The test harness: a broker that a test starts, inspects and controls, for real clients.

    with Kafka() as kafka:
        kafka.topic("orders", partitions=3).produce([b"a", b"b"])
        start_my_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_stable(members=1)

Read kafka.py first: it composes the parts.

    kafka             Kafka: what a test holds
    lifecycle         the broker behind it: start, stop, crash, restart, snapshot, fork
    presets           its configuration
    loop_thread       its event loop in a thread, and waiting for it from other threads
    deadline          … when a wait is over, on a busy machine as well

    topic             a topic and its records
    group             a consumer group: state, offsets, lag, waits
    group_view        … as its coordinator sees it, with one interface for both protocols
    explanation       … what it waits for; classic_explanation, consumer_explanation
    hints             … why a consumer got no records
    group_control     … controlled by the test: rebalance, evict, hold requests, keep loading
    fake_members/     scripted members, so that one real consumer is enough
    clock             the broker's clock: freeze, advance

    interceptor       sees every request before its handler; may hold, answer or drop it
    recorded_request  a request as tests see it, independent of its version
    faults            faults on requests, which must fire
    fault_actions     … what they do; error responses for any API
    network           … conditions that last: latency, bandwidth, partitions, clock skew
    disk              faults of the disk
    faulty_files      … the file system in memory that has them

    history           requests, events, commits as data
    generations       … generations, and what members owned
    timeline          … as text, for the report of a failed test
    timeline_page     … as pictures, for --kafka-timeline
    client_checks     mistakes of clients, found in the history

    aio               AsyncKafka: waits are awaited
    container         KafkaContainer: in place of testcontainers
    backend           whether tests have their own brokers or use a real cluster
    real_cluster      … the real cluster
    kafka_python/     … its topics and groups, through kafka-python
    plugin            the pytest plugin
    tracebacks        what the report of a failed test shows of the harness's source
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncKafka, NotAwaited
    from .backend import kafka_for_test
    from .client_checks import ClientCheckError
    from .container import KafkaContainer
    from .fake_members.fake_member import FakeMemberRejected
    from .faults import UnusedFault
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
    "UnusedFault": "faults",
    "kafka_for_test": "backend",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Lazy: pytest imports the plugin, and this package with it, at its start.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
