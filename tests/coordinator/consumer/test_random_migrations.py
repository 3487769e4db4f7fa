"""Random heartbeats, joins, leaves, commits, timeouts, changed topics and restarts of groups with
members of both protocols. The harness checks the coordinator after every step: a partition never
has two owners, and a replay of the log, compacted or not, results in the live state. This test
checks that epochs only grow, a fenced epoch commits nothing, and every group finally converges.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kohort.coordinator.classic.states import State
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, ConsumerConfig, CoordinatorHarness
from support.mixed_groups import assigned, assignment, consumer_protocols

E = ErrorCode
WHO = st.integers(0, 5)
INSTANCES = st.sampled_from([None, None, "i1", "i2"])
SUBSCRIPTIONS = st.sampled_from(
    [
        {"topics": ("orders",)},
        {"topics": ("orders", "refunds")},
        {"topics": ("refunds",)},
        {"topics": (), "regex": "or.*"},
        {"topics": ("refunds",), "regex": ".*s"},
        {"topics": ("orders",), "assignor": "range"},
        {"topics": ("unknown",)},
        {"topics": (), "regex": "nothing.*"},
    ]
)
TOPICS = st.sampled_from([("orders",), ("orders", "refunds"), ("refunds",)])


# --- model members: the state of a correct client, and its next request

# Errors after which a consumer ends; the last two occur if a classic group cannot be converted.
FATAL = (
    E.fenced_instance_id,
    E.group_max_size_reached,
    E.group_id_not_found,
    E.unknown_server_error,
)


class ModelConsumer:
    """A member of the consumer protocol. `lag`: heartbeats until it revokes the partitions it must
    give up."""

    def __init__(
        self,
        harness: CoordinatorHarness,
        member_id: str,
        instance: str | None = None,
        subscription: Mapping[str, Any] | None = None,
    ) -> None:
        self._harness = harness
        self.member_id = member_id
        self.instance = instance
        self.subscription = {"topics": ("orders",), "regex": "", **(subscription or {})}
        self.epoch = 0
        self.owned: dict[str, tuple[int, ...]] = {}
        self.has_ended = False
        self._acknowledged: dict[str, Any] = {}  # fields that the coordinator has

    def heartbeat(
        self, *, loses_response: bool = False, full: bool = False, keeps_alive: bool = False
    ) -> E:
        """Send a heartbeat with what has changed since the last response: with all fields if it is
        `full`, after an error or a lost response; with none if it only keeps the member alive."""
        owned = self.owned if self.epoch else {}
        fields = {**self.subscription, "rebalance_ms": 20_000, "owned": owned}
        if self.epoch and not full:
            known = fields if keeps_alive else self._acknowledged
            fields = {name: each for name, each in fields.items() if each != known.get(name)}
        result = self._harness.consumer(
            self.member_id, self.epoch, instance=self.instance, **fields
        )
        acknowledged, self._acknowledged = {**self._acknowledged, **fields}, {}
        if loses_response:
            return result.error_code
        if result.error_code is E.none:
            assert result.member_epoch >= self.epoch
            self.epoch, self._acknowledged = result.member_epoch, acknowledged
            found = self._harness.assigned(result)
            if found is not None:
                self.owned = found
        elif result.error_code in (E.fenced_member_epoch, E.unknown_member_id):
            self.epoch, self.owned = 0, {}
        elif result.error_code is E.group_id_not_found and self.epoch:
            self.epoch, self.owned = 0, {}  # the group was deleted
        elif result.error_code in FATAL:
            self.has_ended = True
        else:
            assert result.error_code is E.unreleased_instance_id, result
        return result.error_code

    step = heartbeat

    def leave(self, epoch: int = -1) -> E:
        result = self._harness.consumer(self.member_id, epoch, instance=self.instance)
        self.epoch, self.owned = 0, {}
        return result.error_code


class ModelClassic:
    """A member of the classic protocol with cooperative rebalances: it keeps its partitions until
    its assignment no longer contains them."""

    def __init__(
        self, harness: CoordinatorHarness, instance: str | None = None, topics: tuple[str, ...] = ()
    ) -> None:
        self._harness = harness
        self.member_id = ""
        self.instance = instance
        self.topics = topics or ("orders",)
        self.epoch = -1
        self.owned: dict[str, tuple[int, ...]] = {}
        self.has_ended = False
        self._ticket: int | None = None  # identifies the request whose response it waits for
        self._is_syncing = False

    def step(self) -> E:
        """Handle a response if there is one, or else send the next request."""
        if self._ticket is None and self.epoch >= 0:
            return self._handle(
                self._harness.heartbeat(self.member_id, self.epoch, instance=self.instance)
            )
        if self._ticket is None:
            self.join()
        return self.receive()

    def receive(self) -> E:
        """Handle the response that it waits for, if that has arrived."""
        result = None if self._ticket is None else self._harness.results.get(self._ticket)
        if result is None:
            return E.none
        self._ticket = None
        if self._is_syncing:
            self._is_syncing = False
            if result.error_code is E.none:
                self.owned = assigned(result) if result.assignment else {}
            return self._handle(result.error_code)
        if result.error_code is E.member_id_required:
            self.member_id = result.member_id
            self.join()
            return self.receive()
        if result.error_code is E.none:
            self.member_id, self.epoch = result.member_id, result.generation_id
            self._sync(result)
            return self.receive()
        return self._handle(result.error_code)

    def join(self) -> None:
        protocols = consumer_protocols(*self.topics, owned=self.owned)
        self._is_syncing = False
        self._ticket = self._harness.join(
            self.member_id, instance=self.instance, protocols=protocols, rebalance_ms=20_000
        )

    def _sync(self, joined: Any) -> None:
        given: dict[str, bytes] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            ids = sorted(member.member_id for member in joined.members)
            topic_id = self._harness.topics.id_of("orders")
            count = self._harness.topics.partition_count(topic_id)
            for index, member_id in enumerate(ids):
                mine = tuple(range(count))[index :: len(ids)]
                given[member_id] = assignment({"orders": mine} if mine else {})
        self._is_syncing = True
        self._ticket = self._harness.sync(self.member_id, self.epoch, given, instance=self.instance)

    def _handle(self, error: E) -> E:
        if error in (E.unknown_member_id, E.group_max_size_reached):
            self.member_id, self.epoch, self.owned = "", -1, {}
        elif error is E.illegal_generation:
            self.epoch, self.owned = -1, {}
        elif error in (E.rebalance_in_progress, E.not_coordinator):
            self.epoch = -1
        elif error is E.fenced_instance_id:
            self.has_ended = True
        else:
            assert error is E.none, error
        return error

    def leave(self) -> E:
        left = self._harness.leave((self.member_id, self.instance))
        self.member_id, self.epoch, self.owned, self._ticket = "", -1, {}, None
        error = left.members[0].error_code if left.members else left.error_code
        assert isinstance(error, E)
        return error


# --- the state machine


class RandomMigration(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = CoordinatorHarness(
            group_initial_rebalance_delay_ms=0, group_consumer_max_size=6, group_max_size=5
        )
        self.consumers: list[ModelConsumer] = []
        self.classics: list[ModelClassic] = []
        self.started = 0
        self.epoch = 0
        self.was_empty = True

    # --- members of the consumer protocol

    @rule(instance=INSTANCES, subscription=SUBSCRIPTIONS)
    def a_consumer_starts(
        self, instance: str | None, subscription: dict[str, tuple[str, ...]]
    ) -> None:
        self.started += 1
        name = f"m{self.started}"
        consumer = ModelConsumer(self.harness, name, instance, subscription)
        self.consumers.append(consumer)
        consumer.heartbeat()

    @rule(who=WHO, loses_response=st.booleans(), full=st.booleans())
    def a_consumer_sends_a_heartbeat(self, who: int, loses_response: bool, full: bool) -> None:
        if self.consumers:
            consumer = self.consumers[who % len(self.consumers)]
            consumer.heartbeat(loses_response=loses_response, full=full)

    @rule(who=WHO)
    def a_consumer_keeps_alive(self, who: int) -> None:
        if self.consumers:
            self.consumers[who % len(self.consumers)].heartbeat(keeps_alive=True)

    @rule(who=WHO, subscription=SUBSCRIPTIONS)
    def a_consumer_changes_its_subscription(
        self, who: int, subscription: dict[str, tuple[str, ...]]
    ) -> None:
        if self.consumers:
            consumer = self.consumers[who % len(self.consumers)]
            consumer.subscription = {"topics": (), "regex": "", **subscription}
            consumer.heartbeat()

    @rule(who=WHO)
    def a_consumer_joins_again(self, who: int) -> None:
        if self.consumers:
            consumer = self.consumers[who % len(self.consumers)]
            consumer.epoch, consumer.owned = 0, {}
            consumer.heartbeat()

    @rule(who=WHO, temporarily=st.booleans())
    def a_consumer_leaves(self, who: int, temporarily: bool) -> None:
        if self.consumers:
            consumer = self.consumers.pop(who % len(self.consumers))
            consumer.leave(-2 if temporarily and consumer.instance else -1)

    @rule(who=WHO)
    def a_consumer_crashes(self, who: int) -> None:
        if self.consumers:
            self.consumers.pop(who % len(self.consumers))

    # --- members of the classic protocol

    @rule(instance=INSTANCES, topics=TOPICS)
    def a_classic_member_starts(self, instance: str | None, topics: tuple[str, ...]) -> None:
        member = ModelClassic(self.harness, instance, topics)
        self.classics.append(member)
        member.step()

    @rule(who=WHO)
    def a_classic_member_goes_on(self, who: int) -> None:
        if self.classics:
            self.classics[who % len(self.classics)].step()

    @rule(who=WHO, topics=TOPICS)
    def a_classic_member_joins_again(self, who: int, topics: tuple[str, ...]) -> None:
        if self.classics:
            member = self.classics[who % len(self.classics)]
            member.topics = topics
            member.join()
            member.receive()

    @rule(who=WHO)
    def a_classic_member_leaves(self, who: int) -> None:
        if self.classics:
            member = self.classics.pop(who % len(self.classics))
            if member.member_id:
                member.leave()

    @rule(who=WHO)
    def a_classic_member_changes_its_protocol(self, who: int) -> None:
        """The member keeps its id, like a client that is configured to do so."""
        if self.classics and self.classics[-1].member_id:
            member = self.classics.pop(who % len(self.classics))
            if member.member_id:
                consumer = ModelConsumer(self.harness, member.member_id, member.instance)
                self.consumers.append(consumer)
                consumer.heartbeat()

    # --- all members

    @rule(who=WHO, older=st.integers(0, 2), partition=st.integers(0, 3))
    def a_member_commits(self, who: int, older: int, partition: int) -> None:
        members = [*self.consumers, *self.classics]
        if not members:
            return
        member = members[who % len(members)]
        epoch = member.epoch - older
        group = self.harness.coordinator.consumer_groups.get(GROUP)
        known = None if group is None else group.members.get(member.member_id)
        error = self.harness.commit(
            ("orders", partition, 1),
            member_id=member.member_id,
            generation=epoch,
            instance=member.instance,
            supports_member_epochs=True,
        )
        if error is E.none and epoch >= 0 and group is not None:
            assert known is not None, "its member was fenced"
            assert epoch <= known.epoch
            if epoch < known.epoch:
                topic_id = self.harness.topics.id_of("orders")
                assert topic_id is not None
                since = known.assignment_epoch(topic_id, partition)
                assert since is not None, "the partition may belong to another member"
                assert since <= epoch

    @rule(topic=st.sampled_from(["orders", "refunds", "ordinary"]), more=st.integers(1, 2))
    def a_topic_grows(self, topic: str, more: int) -> None:
        topic_id = self.harness.topics.id_of(topic)
        count = 0 if topic_id is None else self.harness.topics.partition_count(topic_id)
        if count + more <= 6:
            self.harness.topics.put(topic, count + more)

    @rule(topic=st.sampled_from(["refunds", "ordinary"]))
    def a_topic_is_deleted(self, topic: str) -> None:
        if self.harness.topics.id_of(topic) is not None:
            self.harness.topics.delete(topic)

    @rule(ms=st.sampled_from([0, 1, 5_000, 10_001, 20_000, 45_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule(interval_ms=st.sampled_from([0, 0, 15_000]))
    def the_assignment_interval_changes(self, interval_ms: int) -> None:
        self.harness.consumer_config = ConsumerConfig(assignment_interval_ms=interval_ms)

    @rule()
    def the_partition_is_loaded_again(self) -> None:
        self.harness.restart()
        if GROUP in self.harness.coordinator.groups:
            self.epoch = 0  # a generation that was not synced is lost

    @rule()
    def an_administrator_deletes_the_group(self) -> None:
        if self.harness.delete() is E.none:
            self.epoch = 0

    # --- invariants

    @invariant()
    def epochs_only_grow(self) -> None:
        """An exception: an empty group of one protocol is replaced by a new one of the other."""
        coordinator = self.harness.coordinator
        classic, consumer = coordinator.groups.get(GROUP), coordinator.consumer_groups.get(GROUP)
        assert classic is None or consumer is None
        epoch = 0
        if classic is not None:
            epoch = classic.generation
        elif consumer is not None:
            epoch = consumer.epoch
        assert epoch >= self.epoch or self.was_empty
        self.epoch = epoch
        group = classic or consumer
        self.was_empty = group is None or not group.members

    def settle(self) -> None:
        """Let all members continue, without other changes, until each owns its share."""
        harness = self.harness
        harness.consumer_config = ConsumerConfig()
        for _ in range(60):
            harness.advance(2_000)
            for member in [*self.consumers, *self.classics]:
                if not member.has_ended:
                    member.step()

    def teardown(self) -> None:
        self.settle()
        harness = self.harness
        group = harness.coordinator.consumer_groups.get(GROUP)
        if group is not None and group.members:
            assert group.state == "Stable"
            for member_id, target in group.targets.items():
                owned = group.members[member_id].assigned
                assert {t: set(p) for t, p in owned.items()} == {
                    t: set(p) for t, p in target.items() if p
                }
        classic = harness.coordinator.groups.get(GROUP)
        assert classic is None or classic.state in (State.STABLE, State.EMPTY)
        # Without heartbeats all members expire.
        harness.advance(400_000)
        assert not harness.coordinator.deadlines


TestRandomMigration = RandomMigration.TestCase
TestRandomMigration.settings = settings(stateful_step_count=40)


@given(
    first=st.lists(SUBSCRIPTIONS, min_size=1, max_size=3),
    changes=st.lists(st.tuples(WHO, SUBSCRIPTIONS), max_size=6),
    interval_ms=st.sampled_from([0, 15_000]),
)
def test_consumers_that_send_only_what_changes_converge(
    first: list[dict[str, Any]], changes: list[tuple[int, dict[str, Any]]], interval_ms: int
) -> None:
    """No member is fenced, because all members continue."""
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    harness.topics.put("refunds", 2)
    harness.consumer_config = ConsumerConfig(assignment_interval_ms=interval_ms)
    consumers = [ModelConsumer(harness, f"m{n}", None, each) for n, each in enumerate(first)]
    for who, subscription in [*changes, *[(0, None)] * 12]:
        if subscription is not None:
            consumer = consumers[who % len(consumers)]
            consumer.subscription = {"topics": (), "regex": "", **subscription}
        for consumer in consumers:
            assert consumer.heartbeat() is E.none
        harness.advance(4_000)
    assert harness.consumers.state == "Stable"
