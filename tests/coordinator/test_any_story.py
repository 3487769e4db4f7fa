"""Whatever members do, and in whatever order: the coordinator keeps its word.

World checks after every step that replaying the log gives the live durable state, and that no
deadline is without its member. Here it is also checked that generations only grow, that only the
current one succeeds, and that once all is quiet nobody is left waiting.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kohort.coordinator.classic.states import State
from kohort.protocol.errors import ErrorCode
from support.coordinator import World

E = ErrorCode
PROTOCOLS = [
    (("range", b"1"),),
    (("range", b"2"),),
    (("range", b"1"), ("roundrobin", b"1")),
    (("roundrobin", b"1"), ("range", b"1")),
]
INSTANCES = ["i1", "i2"]
WHO = st.integers(0, 7)
# No client asks for no time or less, but anybody can.
REBALANCE_MS = st.sampled_from([9_000, 9_000, 9_000, 0, -1])


class AnyStory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.w = World(group_initial_rebalance_delay_ms=3_000, group_max_size=4)
        # (member id, instance id), the newest last; also of those who are long gone.
        self.known: list[tuple[str, str | None]] = []
        self.joins: dict[int, str | None] = {}
        self.generation = 0

    def some(self, who: int) -> tuple[str, str | None]:
        return self.known[-1 - who % len(self.known)] if self.known else ("stranger", None)

    def learn(self) -> None:
        for ticket, instance in list(self.joins.items()):
            answer = self.w.answers.get(ticket)
            if answer is not None:
                del self.joins[ticket]
                if answer.error in (E.none, E.member_id_required):
                    self.known.append((answer.member_id, instance))

    def join(self, member_id: str, instance: str | None, which: int, **more: Any) -> None:
        ticket = self.w.join(member_id, instance=instance, protocols=PROTOCOLS[which], **more)
        self.joins[ticket] = instance
        self.learn()

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

    @rule(who=WHO, which=st.integers(0, 3), rebalance_ms=REBALANCE_MS)
    def a_member_joins_again(self, who: int, which: int, rebalance_ms: int) -> None:
        self.join(*self.some(who), which, rebalance_ms=rebalance_ms)

    @rule()
    def everybody_joins_and_syncs(self) -> None:
        self.settle()

    @rule(who=WHO, old=st.booleans())
    def a_member_syncs(self, who: int, old: bool) -> None:
        member_id, _instance = self.some(who)
        generation = self.current() - old
        ticket = self.w.sync(member_id, generation, {m: b"x" for m, _ in self.known})
        self.check_success(ticket, generation)

    @rule(who=WHO, old=st.booleans())
    def a_member_beats(self, who: int, old: bool) -> None:
        member_id, instance = self.some(who)
        error = self.w.heartbeat(member_id, self.current() - old, instance=instance)
        assert not (error is E.none and old)

    @rule(who=WHO, old=st.integers(-1, 1), offset=st.integers(0, 9))
    def a_member_commits(self, who: int, old: int, offset: int) -> None:
        member_id, instance = self.some(who)
        generation = self.current() - old
        error = self.w.commit(
            ("t", who, offset), member_id=member_id, generation=generation, instance=instance
        )
        if error is E.none and generation >= 0:
            assert generation == self.current()

    @rule(offset=st.integers(0, 9))
    def somebody_commits_without_a_group(self, offset: int) -> None:
        self.w.commit(("t", 9, offset))

    @rule(who=WHO, by_instance=st.booleans())
    def a_member_leaves(self, who: int, by_instance: bool) -> None:
        member_id, instance = self.some(who)
        self.w.leave(("" if by_instance else member_id, instance))
        self.learn()

    @rule(who=WHO)
    def an_administrator_takes_away(self, who: int) -> None:
        w = self.w
        group = w.coordinator.groups.get("orders")
        is_empty = group is None or group.state is State.EMPTY
        if who < 3:
            if w.delete() is E.none:
                assert is_empty
                assert w.describe().error is E.group_id_not_found
                assert w.fetch().topics == ()
                self.generation = 0
            else:
                assert not is_empty or w.describe().error is E.group_id_not_found
        else:
            w.delete_offsets(("t", (who, 9)))
            w.list_groups()

    @rule(ms=st.sampled_from([0, 1, 2_999, 3_000, 6_001, 9_000, 10_000]))
    def time_goes_by(self, ms: int) -> None:
        self.w.sleep(ms)
        self.learn()

    @rule()
    def the_partition_is_lost_and_found(self) -> None:
        self.w.restart()
        # An unfinished generation is forgotten with the coordinator that began it.
        self.generation = 0
        self.learn()

    def current(self) -> int:
        group = self.w.coordinator.groups.get("orders")
        return 0 if group is None else group.generation

    def check_success(self, ticket: int, generation: int) -> None:
        answer = self.w.answers.get(ticket)
        if answer is not None and answer.error is E.none:
            assert generation == self.current()

    def settle(self) -> None:
        """All members act as good clients do, until there is nothing to do."""
        w = self.w
        for _ in range(10):
            group = w.coordinator.groups.get("orders")
            if group is None or group.state in (State.EMPTY, State.STABLE):
                break
            if group.state is State.PREPARING_REBALANCE:
                for member in list(group.members.values()):
                    if member.join_ticket is None and member.member_id in group.members:
                        w.join(
                            member.member_id,
                            instance=member.group_instance_id,
                            protocols=member.protocols,
                            rebalance_ms=9_000,
                        )
                w.sleep(3_000)
            else:
                for member_id in list(group.members):
                    w.sync(member_id, group.generation, dict.fromkeys(group.members, b"x"))
            self.learn()
        group = w.coordinator.groups.get("orders")
        assert group is None or group.state in (State.EMPTY, State.STABLE)
        if group is not None:
            waiting = [m.join_ticket or m.sync_ticket for m in group.members.values()]
            assert not any(waiting)

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.current() >= self.generation
        self.generation = self.current()

    def teardown(self) -> None:
        self.settle()
        # Left alone, all go, and nothing is due any more but the next sweep.
        self.w.sleep(400_000)
        assert not self.w.coordinator.deadlines
        group = self.w.coordinator.groups.get("orders")
        assert group is None or (group.state is State.EMPTY and not group.pending_joins)


TestAnyStory = AnyStory.TestCase
TestAnyStory.settings = settings(stateful_step_count=40)
