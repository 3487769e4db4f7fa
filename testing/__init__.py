"""The harness: a broker that a test starts, asks and steers, while real clients live on it.

    with Kafka() as kafka:
        kafka.topic("orders", partitions=3).produce([b"a", b"b"])
        start_my_service(kafka.bootstrap_servers)
        kafka.group("billing").wait_stable(members=1)

Read kafka.py first: what a test holds in its hand. It is made of

    group          one consumer group: what it is, and waiting until it is so;  members: its
                   members;  progress: what it has committed, and its lag
    topic          one topic: its records, its partitions
    choreography   what a test makes a group do: rebalance, wait at a door, be led by somebody
    clock          the broker's time: freeze it, move it
    history        what happened: requests, commits, generations;  happened: what it is made of
    asked          one request as a test sees it, whatever its version;  spelled_out: one that
                   says only what is new
    report         what a failed test is told of all that;  folding: what repeats is one line
    doctor         what the clients do wrong: findings, by their symptoms in the history, and by
                   what was delivered to whom
    drawing        the history as a picture;  page: the file of a whole run (--kafka-timeline)
    faults         what a test does to requests on their way, and that it must happen
    filters        which requests a fault is for
    deeds          how that is done;  refusals: the answer of a broker that refuses
    fake_members/  scripted members, so that one real consumer is enough
    steering       between the socket and the handlers: sees each request, may keep it
    waiting        barriers: until something is so, or a failure that says what was
    story          why a group is where it is, in words
    presets        how a broker for tests is set up
    life           nodes that stop, crash and replay, snapshots and forks
    disk           what a test does to the broker's disk;  faulty_files: that disk;  platter: what
                   of its bytes outlives a power cut
    loop_thread    an event loop in a thread of its own;  forked: processes that have none of it

of other ways in

    aio            the same on an event loop: waits are awaited
    container      in place of testcontainers' KafkaContainer
    where          whether tests have brokers of their own, or run on a real cluster
    real           what can be had of that;  real_cluster: how it is asked;  described: what
                   kafka-python tells of an error

and of the pytest plugin (plugin, with its options in settings), which imports none of it before a
test asks for a broker.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncKafka
    from .container import KafkaContainer
    from .fake_members.arriving import PuppetRefused
    from .faults import UnusedFault
    from .findings import DoctorWarning, Unhealthy
    from .kafka import Kafka
    from .waiting import BarrierTimeout
    from .where import kafka_for_test

__all__ = [
    "AsyncKafka",
    "BarrierTimeout",
    "DoctorWarning",
    "Kafka",
    "KafkaContainer",
    "PuppetRefused",
    "Unhealthy",
    "UnusedFault",
    "kafka_for_test",
]

_WHERE = {
    "AsyncKafka": "aio",
    "BarrierTimeout": "waiting",
    "DoctorWarning": "findings",
    "Kafka": "kafka",
    "KafkaContainer": "container",
    "PuppetRefused": "fake_members.arriving",
    "Unhealthy": "findings",
    "UnusedFault": "faults",
    "kafka_for_test": "where",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    # Imported when it is asked for: pytest loads the plugin, and this folder with it, at its start.
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_WHERE[name]}", __name__), name)
