"""Properties of target assignments over the histories of random groups."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.homogeneous import assign_uniform
from kohort.assignors.server.model import Member, ServerAssignor, Target, Topic

from .histories import Group, random_history, records_of


class Checked:
    """A ServerAssignor whose assignments are checked."""

    def __init__(self, assignor: ServerAssignor) -> None:
        self._assignor = assignor
        self.sticky = assignor is assign_uniform

    def __call__(
        self, members: Mapping[str, Member], topics: Mapping[str, Topic], homogeneous: bool
    ) -> dict[str, Target]:
        before = {member_id: copy(member.target) for member_id, member in members.items()}
        targets = self._assignor(members, topics, homogeneous)
        assert before == {member_id: member.target for member_id, member in members.items()}
        check_owners(members, topics, targets)
        if self.sticky and homogeneous:
            check_quotas(members, topics, targets)
        return targets


def copy(target: Target) -> Target:
    return {topic: [*partitions] for topic, partitions in target.items()}


def check_owners(
    members: Mapping[str, Member], topics: Mapping[str, Topic], targets: Mapping[str, Target]
) -> None:
    """Each partition that has subscribers belongs to exactly one of them, once."""
    owned: Counter[tuple[object, int]] = Counter()
    for member_id, target in targets.items():
        subscribed = {topics[name].id for name in members[member_id].topics if name in topics}
        assert target.keys() <= subscribed
        assert all(target.values())
        owned.update((topic, partition) for topic in target for partition in target[topic])
    names = {name for member in members.values() for name in member.topics}
    existing = [topics[name] for name in names if name in topics]
    assert owned == Counter(
        (topic.id, partition) for topic in existing for partition in range(topic.partitions)
    )


def check_quotas(
    members: Mapping[str, Member], topics: Mapping[str, Topic], targets: Mapping[str, Target]
) -> None:
    """Loads differ by one at most, and members keep all that their quotas permit."""
    loads = [sum(map(len, target.values())) for target in targets.values()]
    assert max(loads) - min(loads) <= 1
    existing = {topic.id for topic in topics.values()}
    kept, owned = [], []
    for member_id, member in members.items():
        target = targets[member_id]
        still = {topic: member.target[topic] for topic in member.target if topic in target}
        kept.append(sum(len({*still[topic]} & {*target[topic]}) for topic in still))
        subscribed = {topics[name].id for name in member.topics if name in topics}
        remaining = existing & subscribed & member.target.keys()
        owned.append(sum(len(member.target[topic]) for topic in remaining))
    # The higher quotas are those of the members that own the most.
    quotas = zip(sorted(owned), sorted(loads), strict=True)
    assert sum(kept) == sum(min(had, quota) for had, quota in quotas)


@given(st.integers(0))
def test_targets_are_valid_and_balanced_and_keep_what_they_can(seed: int) -> None:
    history = random_history(seed)
    group = Group(Checked(SERVER_ASSIGNORS[history["assignor"]]))
    records = [group.apply(step) for step in history["steps"]]
    assert [of_step for of_step in records if of_step is not None] == records_of(history)


@given(st.integers(0))
def test_a_heartbeat_without_changes_writes_no_records(seed: int) -> None:
    history = random_history(seed)
    group = Group(SERVER_ASSIGNORS[history["assignor"]])
    for step in history["steps"]:
        if group.apply(step):
            assert group.apply(step) == []


def test_a_group_without_members_or_existing_topics_gets_nothing() -> None:
    for assignor in SERVER_ASSIGNORS.values():
        for homogeneous in (True, False):
            assert assignor({}, {}, homogeneous) == {}
            members = {"a": Member(("t",)), "b": Member(("t",))}
            assert assignor(members, {}, homogeneous) == {"a": {}, "b": {}}
