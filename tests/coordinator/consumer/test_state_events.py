"""The transitions of consumer groups as events. Their states are derived from their records; the
harness compares them with the events after every step."""

from support.coordinator import CoordinatorHarness
from support.mixed_groups import assignment, classic_group

ALL = {"orders": (0, 1, 2, 3)}


def transitions(harness: CoordinatorHarness) -> list[tuple[str | None, str | None]]:
    """Return the transitions since the last call."""
    states = [(each.state_from, each.state_to) for each in harness.events]
    harness.events.clear()
    return [each for each in states if each != (None, None)]


def test_a_group_from_its_first_member_to_its_deletion(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    assert transitions(harness) == [(None, "Empty"), ("Empty", "Stable")]
    harness.consumer_join("b")
    assert transitions(harness) == [("Stable", "Reconciling")]
    kept = harness.assigned(harness.consumer("a", 2, ALL))
    harness.consumer("a", 2, kept)
    assert transitions(harness) == []
    harness.consumer("b", 3)
    harness.consumer("a", 3)
    assert transitions(harness) == [("Reconciling", "Stable")]
    harness.consumer("a", -1)
    assert transitions(harness) == [("Stable", "Assigning")]
    harness.consumer("b", -1)
    assert transitions(harness) == [("Assigning", "Empty")]
    harness.delete()
    assert transitions(harness) == [("Empty", "Dead")]


def test_a_group_that_is_loaded_again(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    harness.consumer_join("b")
    transitions(harness)
    harness.restart()
    assert transitions(harness) == [("Reconciling", "Dead"), ("Dead", "Reconciling")]


def test_a_group_that_changes_its_protocol_twice(harness: CoordinatorHarness) -> None:
    classic_group(harness, assignment(ALL))
    transitions(harness)
    harness.consumer_join("c")
    assert transitions(harness) == [("Stable", "Reconciling")]
    harness.consumer("c", -1)
    assert transitions(harness) == [("Reconciling", "Stable"), ("Stable", "PreparingRebalance")]
