"""`Kafka`: a broker for a test, and everything that controls and inspects it."""

import copy
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import starmap
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, get_args
from weakref import WeakSet

from ..broker.broker import Broker
from ..broker.config.broker_config import BrokerConfig
from ..log.group_commit import Durability
from ..protocol.apis import NEWEST
from ..protocol.framing import address
from ..suggestions import SuggestsAttributes, did_you_mean
from .client_checks import ClientChecks
from .clock import ClockControl, VirtualClock
from .deadline import Deadline
from .explanation.hints import hints, no_client
from .explanation.transactions import open_transactions
from .fake_members.client import Identity
from .fake_members.fake_member import (
    SESSION_TIMEOUT_MS,
    FakeMember,
    FakeMembers,
    GroupProtocol,
    ProtocolType,
    Strategy,
)
from .faults.disk import Disk
from .faults.faults import Fault, Faults
from .faults.files import FaultyFiles
from .group import Group, group_ids
from .group_control import FastEviction
from .history import History, matches
from .lifecycle import LOCALHOST, NOT_STARTED, BrokerHost, NodeInfo, Snapshot
from .loop_thread import (
    CALL_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS,
    LoopThread,
    check_callable,
    check_may_block,
    is_true,
    timed_out,
)
from .presets import (
    Config,
    Preset,
    check_known,
    config_texts,
    new_config,
    security_texts,
    with_preset,
)
from .recorded_request import RecordedRequest, find_api_name
from .timeline.timeline import is_shown, timeline
from .topic import Topic, create_topic
from .transactions import Transactions

if TYPE_CHECKING:
    from .security import Security

T = TypeVar("T")

# The interval between checks of a test's condition. A condition is polled because it may depend on
# things other than the broker.
POLL_SECONDS = 0.01

# The maximum number of timeline lines in the report of a failed test: two screens, about five
# rebalances of a small group.
REPORTED_LINES_MAX = 80
REPORTED_GROUPS_MAX = 10

running: "Final[WeakSet[Kafka]]" = WeakSet()
"""All started brokers. The report of a failed test includes brokers that no fixture created."""


class Kafka(SuggestsAttributes):
    """A broker in a thread of this process, with its data in memory.

        with Kafka() as kafka:
            ...  # kafka.bootstrap_servers

    `nodes`: the number of nodes.
    `preset`: `instant` (no rebalance waits for more members) or `kafka` (Kafka's defaults).
    `profile`: the Kafka release whose API versions the broker serves: `kafka-2.8`, `kafka-3.9` or
    `kafka-4.x`.
    `config`: Kafka's keys (docs/configuration.md), which override the preset, or a complete
    BrokerConfig, which also contains `nodes`, `profile`, `security` and `users`.
    `evict_disconnected`: remove a member as soon as its connection is lost, rather than after its
    session timeout.
    `durability`: when the in-memory disk (`kafka.disk`) is synced, as in `kohort serve
    --durability`.
    `security`: how clients connect: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    `users`: the password of each user, for SASL; `kafka.security` provides the client settings.
    `loop`: an event loop thread that the broker shares with other brokers.
    `host`, `port`: the address of the first node; port 0 selects free ports for all nodes.

    Call all methods from the test's thread. Waits take a `timeout` in seconds of wall-clock time.
    """

    # AsyncKafka overrides these types.
    _clock_type: type[ClockControl] = ClockControl
    _disk_type: type[Disk] = Disk
    _faults_type: type[Faults[Any]] = Faults
    _fake_member_type: type[FakeMember] = FakeMember
    _transactions_type: type[Transactions] = Transactions
    clock: ClockControl
    faults: Faults[Fault]

    def __init__(
        self,
        *,
        nodes: int = 1,
        preset: Preset = "instant",
        profile: str = NEWEST,
        config: Config | BrokerConfig | None = None,
        evict_disconnected: bool = False,
        durability: Durability = "none",
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        loop: LoopThread | None = None,
        host: str = LOCALHOST,
        port: int = 0,
    ) -> None:
        if not isinstance(config, BrokerConfig):
            secured = {**security_texts(security, users or {}, host, port), **(config or {})}
            config = new_config(preset, nodes, profile, secured)
            for message in config.warnings():  # keys without effect
                warnings.warn(message, stacklevel=2)
        elif nodes != 1 or profile != NEWEST or security != "PLAINTEXT" or users:
            raise ValueError(
                "nodes, profile, security and users have no effect with a BrokerConfig: set its "
                "keys, or pass config as a dict"
            )
        else:
            config = with_preset(config, preset)
        check_known("durability", durability, get_args(Durability))
        self._evict_disconnected = evict_disconnected
        self._host = BrokerHost(config, durability, loop, host, port)
        self._create(VirtualClock(), FaultyFiles())

    def _create(self, clock: VirtualClock, files: FaultyFiles) -> None:
        """Create a stopped broker on this disk and clock, without faults and fake members."""
        host = self._host
        host.create(clock, files)
        self.clock = self._clock_type(host, clock)
        self.disk = self._disk_type(host)
        self.faults = self._faults_type(host, self.disk)
        host.active_faults = self.faults.active
        self.fake_members = FakeMembers(host, self.faults, self._fake_member_type)
        host.fake_members = self.fake_members
        self.client_checks = ClientChecks(host)
        if self._evict_disconnected:
            host.interception.hooks.append(FastEviction(host))
        host.interception.hooks.append(self.faults)

    def __repr__(self) -> str:
        servers = self.bootstrap_servers if self.broker.addresses else "no address yet"
        return f"<{type(self).__name__} at {servers}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Stop the broker. An exception gets the report as a note, because pytest writes its own
        report after the broker has stopped."""
        try:
            if isinstance(error, Exception):
                error.add_note(report(self, failure=str(error)))
            if kind is None:
                self.faults.check()
        finally:
            self.stop()

    if not TYPE_CHECKING:  # otherwise type checkers would accept `async with Kafka()`

        async def __aenter__(self) -> NoReturn:
            raise TypeError("Kafka blocks the event loop: use `async with AsyncKafka()`")

        async def __aexit__(self, *_: object) -> None: ...

    def start(self) -> Self:
        """Start the broker. Clients can connect when the method returns."""
        self._host.start()
        running.add(self)
        return self

    def stop(self) -> None:
        """Close all connections and stop the broker. No socket or thread remains, except the
        thread of a shared `loop`. Does nothing if the broker is already stopped."""
        running.discard(self)
        self._host.stop()

    def reset(self) -> None:
        """Replace the broker with a new one at the same address, without topics, groups or history,
        and remove all faults, even unused ones. Connections are closed; clients that are still open
        reconnect. `client_checks.ignore` still applies."""

        def create() -> None:
            ignored = self.client_checks.ignored
            self._create(VirtualClock(), FaultyFiles())
            self.client_checks.ignored |= ignored

        self._host.reset(create)

    # --- topics and groups

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as in the client setting: `127.0.0.1:34567`. Raises
        RuntimeError before the broker is started."""
        if not self.broker.addresses:
            raise RuntimeError(NOT_STARTED)
        return ",".join(starmap(address, self.broker.addresses.values()))

    @property
    def security(self) -> "Security":
        """The certificates and settings that clients need for TLS and SASL."""
        from .security import Security

        return Security(self._host)

    @property
    def history(self) -> History:
        """The requests and events since the broker was created."""
        return self._host.history

    def topic(
        self, name: str, partitions: int | None = None, config: Config | None = None
    ) -> Topic:
        """Return the topic. If it does not exist, create it with this number of partitions
        (default: num.partitions) and these topic configs. Raises ValueError if Kafka would reject
        the topic, or if it exists with a different number of partitions or config."""
        create_topic(self._host, name, partitions, config_texts(config or {}))
        return Topic(self._host, name)

    @property
    def topics(self) -> list[Topic]:
        """All topics, including Kafka's internal ones, sorted by name."""
        names = self.call(lambda broker: sorted(topic.name for topic in broker.node.topics))
        return [Topic(self._host, each) for each in names]

    def group(self, group_id: str) -> Group:
        """Return the group, which need not exist yet."""
        self._host.named_groups.add(group_id)
        return Group(self._host, group_id)

    @property
    def groups(self) -> list[Group]:
        """All existing groups, sorted by id."""
        return [self.group(each) for each in group_ids(self._host)]

    @property
    def transactions(self) -> Transactions:
        """The transactions of producers: state, waits, and control."""
        return self._transactions_type(self._host)

    def fake_member(
        self,
        group: str,
        topics: Iterable[str] = (),
        *,
        assignor: Strategy | Iterable[Strategy] | None = None,
        client_id: str | None = None,
        instance_id: str | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = 300_000,
        protocol: GroupProtocol = "classic",
        protocol_type: ProtocolType = "consumer",
        connectors: Mapping[str, int] | None = None,
        may_be_rejected: bool = False,
        timeout: float = TIMEOUT_SECONDS,
    ) -> FakeMember:
        """Add a scripted member to the group, subscribed to `topics`.

        When the method returns, the member is in a generation, or its JoinGroup waits for other
        members, for the clock, or for the test (a hold, a fault, a loading coordinator, a stopped
        node). Raises BarrierTimeout, and FakeMemberRejected with the broker's error if the member
        cannot join. With `may_be_rejected`, the error is added to the member's `errors` instead.
        (Each new member causes a rebalance; members added `with group.hold_joins():` cause only
        one.)

        `assignor` is one assignor, or several in order of preference, as objects or names
        (kohort.assignors.resolve; raises AssignorNotFound). The default is range, roundrobin,
        sticky and cooperative-sticky or, if all members of the group support some of these, only
        those. The timeouts default to the Java consumer's (session.timeout.ms,
        max.poll.interval.ms). A member sends three heartbeats per session timeout, and
        `clock.advance` stops at each of the first 10,000 heartbeats and deadlines. With a long
        session timeout, advancing the clock by days is faster.

        With `protocol="consumer"`, the member uses the consumer protocol (KIP-848): `assignor` is
        the name of a server assignor, and the broker sets the session timeout. For protocol_type
        `connect`, `connectors` maps each connector to its number of tasks. Raises ValueError for
        contradictory arguments."""
        members = self.fake_members
        client_id = client_id or members.new_client_id()
        who = Identity(group, client_id, instance_id, session_timeout_ms, rebalance_timeout_ms)
        member = members.create(who, topics, assignor, protocol, protocol_type, connectors)
        return members.join(member, timeout, may_be_rejected=may_be_rejected)

    # --- waits

    def wait_request(
        self,
        api: str,
        *,
        group: str | None = None,
        client_id: str | None = None,
        after: int = 0,
        count: int = 1,
        timeout: float = TIMEOUT_SECONDS,
    ) -> RecordedRequest:
        """Wait for `count` requests of this API (such as `OffsetCommit`), and return the last one.
        Requests are counted from the broker's creation, or after request number `after`."""
        if count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        api = find_api_name(api)
        found, seen = list[RecordedRequest](), after

        def arrived() -> RecordedRequest | None:
            nonlocal seen
            for each in self.history.requests_after(seen):
                seen = each.number
                if matches(each, api, group, client_id):
                    found.append(each)
            return found[count - 1] if len(found) >= count else None

        last = self._host.wait_until(arrived, timeout)
        if last is None:
            of_group = "" if group is None else f" of group {group}"
            by_client = "" if client_id is None else f" from client {client_id}"
            requests = self.history.requests
            apis = sorted({each.api for each in requests})
            what = f"{count} × {api}{of_group}{by_client}: {len(found)} arrived"
            what += f"; all requests so far: {', '.join(apis) or 'none'}"
            hints = [self._hints()]
            groups = {each_group for each in requests for each_group in each.groups}
            clients = {each.client_id for each in requests if each.client_id}
            for kind, name, known in (("group", group, groups), ("client", client_id, clients)):
                if name is not None and name not in known and (hint := did_you_mean(name, known)):
                    hints.insert(0, f"No request has {kind} {name}{hint}")
            raise timed_out(timeout, what, "\n".join(filter(None, hints)))
        return last

    def wait(
        self,
        condition: Callable[[], object],
        description: str = "the condition",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Wait until `condition()` is true. The condition is called in this thread, after each
        change in the broker and every 10 ms, and may depend on anything. The description appears in
        the message of BarrierTimeout."""
        check_may_block()
        check_callable(condition, description)
        changes, deadline = self._host.changes, Deadline(timeout)
        while True:
            seen, is_last = changes.count, deadline.is_over()
            if is_true(condition):
                return
            if is_last:
                raise timed_out(timeout, description, self._explain_groups())
            seconds = min(deadline.left, POLL_SECONDS)
            self._host.wait_until(lambda seen=seen: changes.count > seen, seconds)  # type: ignore[misc]

    def _explain_groups(self) -> str:
        """Return one line for each of the first REPORTED_GROUPS_MAX groups, and the hints that
        these lines do not contain."""
        lines = [group.explain() for group in self.groups[:REPORTED_GROUPS_MAX]]
        shown = "\n".join(lines)
        lines += [each for each in self._hints().splitlines() if not is_shown(each, shown)]
        return "\n".join(lines)

    def _hints(self) -> str:
        return "\n".join(self._host.call(lambda: [*no_client(self._host), *hints(self._host)]))

    # --- nodes, crashes, snapshots

    @property
    def nodes(self) -> list[NodeInfo]:
        """All nodes, in the order of their ids, which start at 1."""
        return self._host.nodes

    def stop_node(self, node_id: int) -> None:
        """Stop a node. Its partitions move to other replicas, its connections are closed, and new
        connections are refused. Raises LookupError for an unknown node, and ValueError for a node
        that is down."""
        self._host.stop_node(node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node at its previous address. Raises OSError if another process has taken
        the address, LookupError for an unknown node, and ValueError for a node that is up."""
        self._host.start_node(node_id)

    def broker_down(self, node: int | None = None) -> AbstractContextManager[None]:
        """Stop one node or all nodes for the duration of `with kafka.broker_down():`. Raises
        LookupError if no such node is up."""
        return self._host.broker_down(node)

    def crash(self, *, power: bool = False, seed: int | None = None) -> None:
        """Crash the broker, as if its process had been killed, and start another broker on the same
        disk, at the same address. Unwritten data is lost. With `power`, unsynced data is lost too
        (with a `seed`, a random part of the unsynced data). The new broker restores its state from
        the log. Clock and history continue. Raises OSError if a disk fault prevents the start; then
        call `disk.heal()` and `restart`."""
        self._host.crash(power=power, seed=seed)

    def restart(self) -> None:
        """Stop the broker cleanly and start it again at the same address. Raises OSError like
        `crash`."""
        self._host.restart()

    def snapshot(self) -> Snapshot:
        """Wait until nothing is in progress, and return a copy of the disk. The copy contains the
        groups as stored in the log, so a rebalancing group is in its previous generation."""
        return self._host.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the broker with one that uses this disk, at the same address. Connections are
        closed. Clock and history continue."""
        self._host.restore(snapshot)

    def fork(self, snapshot: Snapshot | None = None) -> Self:
        """Return another broker, not started, with the disk of the snapshot (None: the current
        disk), the same configuration and time, and a separate history: `with kafka.fork() as
        other:`. Stop the fork before this broker, whose event loop it uses."""
        files = (snapshot or self.snapshot()).files.copy()
        files.faults = []
        other = copy.copy(self)
        other._host = self._host.copy()
        clock = copy.copy(self._host.clock)
        assert isinstance(clock, VirtualClock)
        other._create(clock, files)
        return other

    # --- for everything else

    @property
    def broker(self) -> Broker:
        """The running broker. Use it only on its loop, with `call`."""
        return self._host.broker

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function on the broker's loop, with the broker as its argument."""
        return self._host.call(lambda: function(self.broker))

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float = CALL_TIMEOUT_SECONDS) -> T:
        """Run a coroutine on the broker's loop and return its result."""
        return self._host.run(coroutine, timeout)

    def report(self, since_s: float = 0, failure: str = "") -> str:
        """Return the text that is attached to a failed test: an explanation of each group, further
        reasons why consumers got no records, transactions that have not ended, the findings of the
        client checks, and the end of the timeline. `since_s` omits everything before this time, in
        seconds since the broker was created. `failure` is the message of the wait that failed,
        whose explanations are not repeated."""
        sections: list[str] = []
        if self.broker.is_running:
            sections += [
                group.explain(verbose=True)
                for group in self.groups[:REPORTED_GROUPS_MAX]
                if f"\nGroup {group.group_id} " not in failure
            ]
            shown = "\n".join([failure, *sections])
            sections += [each for each in self._hints().splitlines() if not is_shown(each, shown)]
            shown = "\n".join([failure, *sections])
            unended = self._host.call(lambda: list(open_transactions(self._host)))
            sections += [each for each in unended if not is_shown(each.rstrip("."), shown)]
        findings = [each for each in self.client_checks.findings if each.wall_s >= since_s]
        if findings:
            sections.append("\n".join(["client checks", *(f"  {each}" for each in findings)]))
        lines = timeline(self.history, since_s)
        if lines:
            omitted = len(lines) - REPORTED_LINES_MAX
            before = [f"  … {omitted} earlier lines"] if omitted > 0 else []
            heading = "timeline (seconds since the broker of this test was created)"
            sections.append("\n".join([heading, *before, *lines[-REPORTED_LINES_MAX:]]))
        return "\n\n".join(sections)


def report(kafka: Kafka, since_s: float = 0, failure: str = "") -> str:
    """Return `kafka.report(...)`. An error becomes text, so that it does not hide the failure of
    the test."""
    try:
        return kafka.report(since_s, failure)
    except Exception as error:
        return f"the report of the broker failed: {error!r}"
