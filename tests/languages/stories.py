"""The stories. Each is played with every client, on kohort and on Kafka, and does not depend on
either.

A story raises AssertionError if something else happens, ClientError if the library reports an error
that the story does not expect, and Unsupported if the library lacks a feature that the story needs.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .brokers import USER, Cluster
from .driver import TIMEOUT_SECONDS, ClientError, Driver, Member, Partition

Story = Callable[["Stage"], None]
STORIES: dict[str, Story] = {}
"""Name -> story, in the order of the columns of docs/compatibility.md. Their first docstring line
describes the column there."""

# No session expires in these stories, except where a story is about its expiration.
LONG_SESSION_MS = 30_000
SHORT_SESSION_MS = 2_000
HEARTBEAT_MS = 200
# The wait for something that a client is known not to do: ten times as long as other clients need.
UNEXPECTED_SECONDS = 5.0


class Stage:
    """What a story uses: a driver, a cluster, and names that no other story uses."""

    def __init__(
        self,
        driver: Driver,
        new_driver: Callable[[], Driver],
        cluster: Cluster,
        *,
        differs: bool = False,
    ) -> None:
        self.driver = driver
        self.new_driver = new_driver
        """Starts another process of the same client."""
        self.cluster = cluster
        self.last_seconds = UNEXPECTED_SECONDS if differs else TIMEOUT_SECONDS
        """How long to wait for the last step of a story, which a client that differs does not
        do."""
        self.prefix = f"s{uuid.uuid4().hex[:10]}"
        self.group = f"{self.prefix}-group"
        self.members: list[Member] = []

    def close(self) -> None:
        """Close members that are still open, without waiting until they are closed."""
        for member in self.members:
            if not member.is_closed and member.driver is self.driver and self.driver.is_running():
                self.driver.send("close", id=member.name)

    def topic(self, partitions: int = 1, name: str = "topic") -> str:
        topic = f"{self.prefix}-{name}"
        self.cluster.create_topic(topic, partitions)
        return topic

    def member(
        self, topic: str | None, *, driver: Driver | None = None, **settings: object
    ) -> Member:
        """A new member of the group. Settings: see driver.py."""
        where = {"servers": self.cluster.servers} | ({"topics": [topic]} if topic else {})
        times = {"session_ms": LONG_SESSION_MS, "heartbeat_ms": HEARTBEAT_MS}
        member = Member(driver or self.driver, f"{self.prefix}-{len(self.members)}")
        self.members.append(member)
        member.subscribe(group=self.group, **(where | times | settings))
        return member

    def produce(
        self, topic: str, partition: int, values: Sequence[str], **settings: object
    ) -> None:
        where = {"servers": self.cluster.servers, **settings}
        self.driver.call("produce", topic=topic, partition=partition, values=values, **where)

    def begin(self, producer: str, transactional_id: str) -> None:
        where = {"servers": self.cluster.servers, "transactional_id": transactional_id}
        self.driver.call("begin", id=f"{self.prefix}-{producer}", **where)

    def send(self, producer: str, topic: str, values: Sequence[str]) -> None:
        what = {"topic": topic, "partition": 0, "values": values}
        self.driver.call("send", id=f"{self.prefix}-{producer}", **what)

    def end(self, producer: str, *, commit: bool) -> None:
        self.driver.call("end", id=f"{self.prefix}-{producer}", commit=commit)


def story(function: Story) -> Story:
    STORIES[function.__name__] = function
    return function


def all_of(topic: str, count: int) -> set[Partition]:
    return {Partition(topic, number) for number in range(count)}


def wait_shared(members: Iterable[Member], partitions: set[Partition]) -> None:
    """Wait until each partition has one owner, and all members own the same number."""
    members = list(members)
    for member in members:
        member.wait_count(len(partitions) // len(members))
    for member in members:
        # The first members may have owned this number before the last rebalance.
        member.wait(
            lambda: sorted(p for m in members for p in m.partitions) == sorted(partitions),
            f"its share of {len(partitions)} partitions",
        )


def refused(call: Callable[[], object], *reasons: str) -> None:
    """Check that the library reports one of the errors. Only letters and digits are compared,
    because libraries format errors differently."""
    text = ""
    try:
        call()
    except ClientError as error:
        text = str(error)
    assert text, "it was not refused"
    assert any(_letters(reason) in _letters(text) for reason in reasons), text


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


# The libraries' messages for these errors.
UNKNOWN_MEMBER = (
    *("unknown member", "commit failed", "not known in the current generation"),
    *("not the active member", "coordinator is not aware of this member"),
)
FENCED_INSTANCE = (
    *("fenced instance", "group.instance.id"),
    # aiokafka commits without the instance id, so Kafka reports an unknown member.
    "CommitFailedError: ('Commit cannot be completed since the group has already",
)
FENCED_PRODUCER = (
    "fenced",
    "invalid producer epoch",
    "old epoch",
    "newer producer",
    "error code = 90",
)
NOT_AUTHORIZED = ("authorization failed", "not authorized")
# Some libraries report only that they are not connected. The story changes nothing but the
# password.
NOT_AUTHENTICATED = (
    "authentication",
    "no brokers available",
    "kafka connection error",
    "bootstrap",
)

NOT_TRUSTED = ("certificate", "ssl handshake failed", "unable to bootstrap")


@story
def join(stage: Stage) -> None:
    """A member gets all partitions of a topic and all records that were produced before."""
    topic = stage.topic(2)
    for partition in range(2):
        stage.produce(topic, partition, [f"{partition}-{n}" for n in range(3)])
    member = stage.member(topic)
    assert member.wait_count(2) == all_of(topic, 2)
    member.wait_values([f"{partition}-{n}" for partition in range(2) for n in range(3)])
    offsets = [record.offset for record in member.records if record.partition == 0]
    assert offsets == [0, 1, 2]
    stage.cluster.wait_members(stage.group, 1)


@story
def rebalance(stage: Stage) -> None:
    """A second member gets half of the partitions; each record goes to one of the two members."""
    topic = stage.topic(4)
    first = stage.member(topic)
    first.wait_count(4)
    second = stage.member(topic)
    wait_shared((first, second), all_of(topic, 4))
    stage.cluster.wait_members(stage.group, 2)
    for partition in range(4):
        stage.produce(topic, partition, [f"after-{partition}"])
    for member in (first, second):
        member.wait_values([f"after-{partition}" for _, partition in member.partitions])
    values = [record.value for member in (first, second) for record in member.records]
    assert sorted(values) == [f"after-{partition}" for partition in range(4)]


@story
def static(stage: Stage) -> None:
    """A static member that restarts gets its partitions back without a rebalance (KIP-345)."""
    _restarts_static(stage)


def _restarts_static(stage: Stage, **protocol: bool) -> None:
    topic = stage.topic(4)
    first = stage.member(topic, instance="one", **protocol)
    first.wait_count(4)
    second = stage.member(topic, instance="two", **protocol)
    wait_shared((first, second), all_of(topic, 4))
    owned, seen = first.partitions, len(second.assignments)
    first.close()
    assert stage.cluster.member_count(stage.group) == 2  # it has not left, or only temporarily
    again = stage.member(topic, instance="one", **protocol)
    again.wait_count(2, stage.last_seconds)
    assert again.partitions == owned, f"{again.partitions} instead of {owned}"
    # A rebalance would have reached it by now, and commits are rejected during a rebalance.
    second.commit(min(second.partitions), 0)
    assert len(second.assignments) == seen, second.assignments


@story
def restart(stage: Stage) -> None:
    """A member commits and leaves, and its successor continues at the committed offset."""
    topic = stage.topic()
    stage.produce(topic, 0, [str(n) for n in range(5)])
    first = stage.member(topic)
    first.wait_values([str(n) for n in range(5)])
    first.commit(Partition(topic, 0), 3)
    first.close()
    assert stage.cluster.offsets(stage.group) == {(topic, 0): 3}
    second = stage.member(topic)
    second.wait_values(["3", "4"])
    assert [record.offset for record in second.records] == [3, 4]


@story
def leave(stage: Stage) -> None:
    """A member that leaves is replaced immediately, not after its session timeout."""
    topic = stage.topic(2)
    first = stage.member(topic)
    first.wait_count(2)
    # Longer than the waits below.
    second = stage.member(topic, session_ms=120_000)
    wait_shared((first, second), all_of(topic, 2))
    second.close()
    stage.cluster.wait_members(stage.group, 1)
    first.wait_count(2)


@story
def stall(stage: Stage) -> None:
    """A process that stalls loses its partitions after its session timeout, and joins again."""
    topic = stage.topic(2)
    first = stage.member(topic)
    first.wait_count(2)
    other = stage.new_driver()
    try:
        second = stage.member(topic, driver=other, session_ms=SHORT_SESSION_MS)
        wait_shared((first, second), all_of(topic, 2))
        other.pause()
        first.wait_count(2)
        stage.produce(topic, 0, ["meanwhile-0"])
        stage.produce(topic, 1, ["meanwhile-1"])
        first.wait_values(["meanwhile-0", "meanwhile-1"])
        other.resume()
        first.wait_count(1)
        wait_shared((first, second), all_of(topic, 2))
    finally:
        other.close()


@story
def removed(stage: Stage) -> None:
    """The commit of a member that was removed is rejected."""
    topic = stage.topic()
    member = stage.member(topic, heartbeat_ms=10_000)
    member.wait_count(1)
    member.commit(Partition(topic, 0), 1)
    stage.cluster.remove_members(stage.group)
    refused(lambda: member.commit(Partition(topic, 0), 2), *UNKNOWN_MEMBER)
    assert stage.cluster.offsets(stage.group) == {(topic, 0): 1}


@story
def fenced(stage: Stage) -> None:
    """The commit of a static member whose instance id was taken over is rejected."""
    topic = stage.topic()
    first = stage.member(topic, instance="one", heartbeat_ms=10_000)
    first.wait_count(1)
    first.commit(Partition(topic, 0), 1)
    second = stage.member(topic, instance="one")
    second.wait_count(1)
    refused(lambda: first.commit(Partition(topic, 0), 2), *FENCED_INSTANCE)
    assert stage.cluster.offsets(stage.group) == {(topic, 0): 1}


@story
def cooperative(stage: Stage) -> None:
    """In a cooperative rebalance the first member keeps half of its partitions (KIP-429)."""
    topic = stage.topic(4)
    # krafka loses its partitions, on Kafka too, if a heartbeat with the previous generation arrives
    # right after a rebalance (ILLEGAL_GENERATION). This is rare if it sends few heartbeats.
    first = stage.member(topic, cooperative=True, heartbeat_ms=1_000)
    first.wait_count(4)
    second = stage.member(topic, cooperative=True)
    wait_shared((first, second), all_of(topic, 4))
    _kept_half(first)


def _kept_half(member: Member) -> None:
    final = member.partitions
    since = member.assignments.index(max(member.assignments, key=len))
    assert all(final <= each for each in member.assignments[since:]), member.assignments


@story
def regex(stage: Stage) -> None:
    """A member subscribes to a pattern, and gets a topic that is created later."""
    _subscribes_to_pattern(stage)


def _subscribes_to_pattern(stage: Stage, **protocol: bool) -> None:
    first = stage.topic(1, "match-1")
    stage.topic(1, "other")
    member = stage.member(None, pattern=f"^{stage.prefix}-match-.*", **protocol)
    assert member.wait_count(1) == all_of(first, 1)
    second = stage.topic(1, "match-2")
    member.wait(lambda: len(member.partitions) == 2, "the new topic", stage.last_seconds)
    assert member.partitions == all_of(first, 1) | all_of(second, 1)


@story
def describe(stage: Stage) -> None:
    """The admin client lists groups, and describes a group and its offsets."""
    topic = stage.topic(2)
    member = stage.member(topic)
    member.wait_count(2)
    member.commit(Partition(topic, 1), 7)
    stage.cluster.wait_members(stage.group, 1)
    found = stage.driver.call("describe", servers=stage.cluster.servers, group=stage.group)
    assert stage.group in found["groups"]
    assert (found["state"].lower(), found["members"]) == ("stable", 1)
    assert found["offsets"] == [[topic, 1, 7]]


@story
def transactions(stage: Stage) -> None:
    """A consumer with read_committed gets the records of the committed transaction only."""
    topic = stage.topic()
    for values, commit in ((["aborted"], False), (["committed", "too"], True)):
        stage.begin("producer", f"{stage.prefix}-id")
        stage.send("producer", topic, values)
        stage.end("producer", commit=commit)
    stage.produce(topic, 0, ["last"])
    member = stage.member(topic, read_committed=True)
    member.wait_values(["last"])
    assert [record.value for record in member.records] == ["committed", "too", "last"]


@story
def producer_fencing(stage: Stage) -> None:
    """A second producer with the same transactional id aborts the transaction of the first one."""
    topic = stage.topic()
    stage.begin("older", f"{stage.prefix}-id")
    stage.send("older", topic, ["older"])
    stage.begin("newer", f"{stage.prefix}-id")
    refused(lambda: stage.end("older", commit=True), *FENCED_PRODUCER)
    stage.send("newer", topic, ["newer"])
    stage.end("newer", commit=True)
    member = stage.member(topic, read_committed=True)
    member.wait_values(["newer"])
    assert [record.value for record in member.records] == ["newer"]


@story
def plain(stage: Stage) -> None:
    """SASL/PLAIN: the right password is accepted, and a wrong password is rejected."""
    _authenticated(stage, "SASL_PLAINTEXT", "PLAIN")


@story
def scram(stage: Stage) -> None:
    """SASL/SCRAM-SHA-512 over TLS; a certificate of another authority is rejected."""
    login = _authenticated(stage, "SASL_SSL", "SCRAM-SHA-512")
    login["security"] |= {"password": USER, "ca": str(stage.cluster.other_ca_file)}
    topic = stage.topic(1, "untrusted")
    refused(lambda: stage.produce(topic, 0, ["value"], **login), *NOT_TRUSTED)


def _authenticated(stage: Stage, protocol: str, mechanism: str) -> dict[str, Any]:
    """Return the login, with a wrong password."""
    topic = stage.topic()
    login = stage.cluster.login(protocol, mechanism)
    stage.cluster.allow(stage.prefix)
    stage.produce(topic, 0, ["value"], **login)
    stage.member(topic, **login).wait_values(["value"])
    login["security"]["password"] = "wrong"
    refused(lambda: stage.produce(topic, 0, ["value"], **login), *NOT_AUTHENTICATED)
    return login


@story
def acl(stage: Stage) -> None:
    """Without an ACL for the topic a record is rejected; with an ACL it is accepted."""
    topic = stage.topic()
    login = stage.cluster.login("SASL_PLAINTEXT", "PLAIN")
    refused(lambda: stage.produce(topic, 0, ["refused"], **login), *NOT_AUTHORIZED)
    stage.cluster.allow(stage.prefix)
    stage.produce(topic, 0, ["accepted"], **login)
    member = stage.member(topic, **login)
    member.wait_values(["accepted"])
    assert [record.value for record in member.records] == ["accepted"]


@story
def kip848(stage: Stage) -> None:
    """The consumer protocol (KIP-848): two members share the partitions; one leaves."""
    topic = stage.topic(4)
    first = stage.member(topic, consumer_protocol=True)
    first.wait_count(4)
    second = stage.member(topic, consumer_protocol=True)
    wait_shared((first, second), all_of(topic, 4))
    _kept_half(first)
    one = min(second.partitions)
    second.commit(one, 1)
    assert stage.cluster.offsets(stage.group) == {one: 1}
    assert stage.cluster.protocol(stage.group) == "consumer"
    second.close()
    first.wait_count(4)


@story
def kip848_static(stage: Stage) -> None:
    """The story `static`, with the consumer protocol."""
    _restarts_static(stage, consumer_protocol=True)


@story
def kip848_regex(stage: Stage) -> None:
    """The story `regex`, with the consumer protocol."""
    _subscribes_to_pattern(stage, consumer_protocol=True)
