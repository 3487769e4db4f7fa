"""The offsets of one partition beside a plain dict, through drawn lives.

What was acknowledged is there; what was refused never appears; of what nobody had an answer to, a
crash leaves the first so many, in the order in which they were asked for.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import precondition, rule
from offsets_beside_a_dict import GROUPS, OffsetsBesideADict, groups

# What refuses a commit; in the last case its bytes stay where they are.
REFUSING = (("append",), ("sync",), ("append", "truncate"))


class RoughLives(OffsetsBesideADict):
    """Single steps hardly ever come in the order in which they hurt; these are such orders."""

    @rule(
        plan=st.lists(
            st.tuples(groups, st.sampled_from(["", "s", "ss", "dd", "dds"])), min_size=1, max_size=5
        ),
        fails=st.booleans(),
    )
    def commits_come_beside_a_snapshot(self, plan: list[tuple[str, str]], fails: bool) -> None:
        """To groups that are in it already, and to others; perhaps the last one is refused."""
        self.a_snapshot_is_begun()
        for group_id, steps in plan:
            self.commit(group_id, {0}, 0)
            self.go_on(steps)
        if fails:
            self.commits_are_refused(("append",), 0, plan[-1][0], "ssssss")
        else:
            self.go_on("all")
            for group_id in GROUPS:
                self.fetch(group_id)

    @precondition(lambda self: not self.is_faulty)
    @rule(
        operations=st.sampled_from(REFUSING),
        written=st.sampled_from([0, 30, 100_000]),
        group_id=groups,
        steps=st.sampled_from(["", "d", "s"]),
    )
    def commits_are_refused(
        self, operations: tuple[str, ...], written: int, group_id: str, steps: str
    ) -> None:
        if not self.is_faulty:
            self.is_faulty = True
            for operation in operations:
                self.files.fail(operation, written=written, times=3)
        self.commit(group_id, {0, 1}, 0)
        self.go_on(steps)
        self.go_on("all")
        self.disk_is_mended()

    @rule(group_id=groups, how=st.sampled_from(["kill", "power", "fetch"]))
    def a_group_is_forgotten_for_good(self, group_id: str, how: str) -> None:
        """Not even its tombstones are left, but perhaps a snapshot of when it was there."""
        self.delete(group_id)
        self.go_on("all")
        self.compact_twice()
        if how == "fetch":
            self.fetch(group_id)
        else:
            self.end(how, 0)

    @rule(group_id=groups, seed=st.integers(0, 1000))
    def power_tears_a_commit(self, group_id: str, seed: int) -> None:
        """It is longer than a sector, and is written when the power goes. What is written where it
        was is there after the next end."""
        self.commit(group_id, {0, 1, 2}, 300)
        self.go_on("d")
        self.end("power", seed)
        self.commit(group_id, {0}, 0)
        self.go_on("all")
        self.end("kill", seed)


TestOffsetsBesideADict = RoughLives.TestCase
# Short lives, and many: 150 of them take some 6 s. That is enough to find what one line of the
# store does wrong: a stale place of a group, a snapshot that is finished or read too early or too
# late, refused bytes that are left. The order of two syncs takes an enumeration (tests/log).
TestOffsetsBesideADict.settings = settings(
    max_examples=3 * settings().max_examples, stateful_step_count=30
)
