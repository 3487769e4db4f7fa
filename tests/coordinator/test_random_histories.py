"""Random requests, timeouts and restarts. The harness checks the coordinator after every step. This
test checks that generations only increase, only requests of the current one succeed, and no request
is waiting in the end.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kohort.coordinator.classic.states import State
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

E = ErrorCode
PROTOCOLS = [
    (("range", b"1"),),
    (("range", b"2"),),
    (("range", b"1"), ("roundrobin", b"1")),
    (("roundrobin", b"1"), ("range", b"1")),
]
INSTANCES = ["i1", "i2"]
MEMBERS = st.integers(0, 7)
# Clients do not send zero or negative timeouts, but the protocol allows them.
REBALANCE_MS = st.sampled_from([9_000, 9_000, 9_000, 0, -1])


class RandomHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = CoordinatorHarness(group_initial_rebalance_delay_ms=3_000, group_max_size=4)
        # (member id, instance id) of all members, including removed ones; the newest is last.
        self.members: list[tuple[str, str | None]] = []
        self.joins: dict[int, str | None] = {}
        self.generation = 0

    def member(self, who: int) -> tuple[str, str | None]:
        return self.members[-1 - who % len(self.members)] if self.members else ("unknown", None)

    def collect_results(self) -> None:
        for ticket, instance in list(self.joins.items()):
            answer = self.harness.results.get(ticket)
            if answer is not None:
                del self.joins[ticket]
                if answer.error_code in (E.none, E.member_id_required):
                    self.members.append((answer.member_id, instance))

    def join(self, member_id: str, instance: str | None, which: int, **more: Any) -> None:
        ticket = self.harness.join(member_id, instance=instance, protocols=PROTOCOLS[which], **more)
        self.joins[ticket] = instance
        self.collect_results()

    @rule(
        instance=st.sampled_from([None, None, *INSTANCES]),
        which=st.integers(0, 3),
        version=st.sampled_from([3, 8, 9]),
        rebalance_ms=REBALANCE_MS,
    )
    def a_new_member_joins(
        self, instance: str | None, which: int, version: int, rebalance_ms: int
    ) -> None:
        self.join("", instance, which, version=version, rebalance_ms=rebalance_ms)

    @rule(who=MEMBERS, which=st.integers(0, 3), rebalance_ms=REBALANCE_MS)
    def a_member_rejoins(self, who: int, which: int, rebalance_ms: int) -> None:
        self.join(*self.member(who), which, rebalance_ms=rebalance_ms)

    @rule()
    def all_members_join_and_sync(self) -> None:
        self.settle()

    @rule(who=MEMBERS, old=st.booleans())
    def a_member_syncs(self, who: int, old: bool) -> None:
        member_id, _instance = self.member(who)
        generation = self.current() - old
        ticket = self.harness.sync(member_id, generation, {m: b"x" for m, _ in self.members})
        self.check_success(ticket, generation)

    @rule(who=MEMBERS, old=st.booleans())
    def a_member_sends_a_heartbeat(self, who: int, old: bool) -> None:
        member_id, instance = self.member(who)
        error = self.harness.heartbeat(member_id, self.current() - old, instance=instance)
        assert not (error is E.none and old)

    @rule(who=MEMBERS, old=st.integers(-1, 1), offset=st.integers(0, 9))
    def a_member_commits(self, who: int, old: int, offset: int) -> None:
        member_id, instance = self.member(who)
        generation = self.current() - old
        error = self.harness.commit(
            ("t", who, offset), member_id=member_id, generation=generation, instance=instance
        )
        if error is E.none and generation >= 0:
            assert generation == self.current()

    @rule(offset=st.integers(0, 9))
    def a_standalone_consumer_commits(self, offset: int) -> None:
        self.harness.commit(("t", 9, offset))

    @rule(who=MEMBERS, by_instance=st.booleans())
    def a_member_leaves(self, who: int, by_instance: bool) -> None:
        member_id, instance = self.member(who)
        self.harness.leave(("" if by_instance else member_id, instance))
        self.collect_results()

    @rule(who=MEMBERS)
    def an_administrator_deletes(self, who: int) -> None:
        harness = self.harness
        group = harness.coordinator.groups.get("orders")
        is_empty = group is None or group.state is State.EMPTY
        if who < 3:
            if harness.delete() is E.none:
                assert is_empty
                assert harness.describe().error_code is E.group_id_not_found
                assert harness.fetch().topics == ()
                self.generation = 0
            else:
                assert not is_empty or harness.describe().error_code is E.group_id_not_found
        else:
            harness.delete_offsets(("t", (who, 9)))
            harness.list_groups()

    @rule(ms=st.sampled_from([0, 1, 2_999, 3_000, 6_001, 9_000, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)
        self.collect_results()

    @rule()
    def the_partition_is_loaded_again(self) -> None:
        self.harness.restart()
        # A generation that was not synced is lost with the old coordinator.
        self.generation = 0
        self.collect_results()

    def current(self) -> int:
        group = self.harness.coordinator.groups.get("orders")
        return 0 if group is None else group.generation

    def check_success(self, ticket: int, generation: int) -> None:
        answer = self.harness.results.get(ticket)
        if answer is not None and answer.error_code is E.none:
            assert generation == self.current()

    def settle(self) -> None:
        """Let all members rejoin and sync until the group is Empty or Stable."""
        harness = self.harness
        for _ in range(10):
            group = harness.coordinator.groups.get("orders")
            if group is None or group.state in (State.EMPTY, State.STABLE):
                break
            if group.state is State.PREPARING_REBALANCE:
                for member in list(group.members.values()):
                    if member.join_ticket is None and member.member_id in group.members:
                        harness.join(
                            member.member_id,
                            instance=member.group_instance_id,
                            protocols=member.protocols,
                            rebalance_ms=9_000,
                        )
                harness.advance(3_000)
            else:
                for member_id in list(group.members):
                    harness.sync(member_id, group.generation, dict.fromkeys(group.members, b"x"))
            self.collect_results()
        group = harness.coordinator.groups.get("orders")
        assert group is None or group.state in (State.EMPTY, State.STABLE)
        if group is not None:
            waiting = [m.join_ticket or m.sync_ticket for m in group.members.values()]
            assert not any(waiting)

    @invariant()
    def generations_only_increase(self) -> None:
        assert self.current() >= self.generation
        self.generation = self.current()

    def teardown(self) -> None:
        self.settle()
        # Without heartbeats, all members expire, and only the sweep is scheduled.
        self.harness.advance(400_000)
        assert not self.harness.coordinator.deadlines
        group = self.harness.coordinator.groups.get("orders")
        assert group is None or (group.state is State.EMPTY and not group.pending_joins)


TestRandomHistory = RandomHistory.TestCase
TestRandomHistory.settings = settings(stateful_step_count=40)
