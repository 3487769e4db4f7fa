"""Deadlines: a heap of keys whose times may move or be cancelled."""

from hypothesis import given
from hypothesis import strategies as st
from kohort.coordinator.deadlines import Deadlines


def due(deadlines: Deadlines[str], now: int) -> list[str]:
    keys = []
    while (popped := deadlines.pop_due(now)) is not None:
        key, when = popped
        assert when <= now
        keys.append(key)
    return keys


def test_due_deadlines_come_in_the_order_of_their_time() -> None:
    deadlines = Deadlines[str]()
    for key, when in (("late", 30), ("early", 10), ("middle", 20), ("too late", 31)):
        deadlines.set(key, when)
    assert deadlines.earliest() == 10
    assert due(deadlines, 9) == []
    assert due(deadlines, 30) == ["early", "middle", "late"]
    assert dict(deadlines.pending) == {"too late": 31}


def test_equal_deadlines_come_in_the_order_they_were_set() -> None:
    deadlines = Deadlines[str]()
    for key in "cab":
        deadlines.set(key, 5)
    assert due(deadlines, 5) == ["c", "a", "b"]


def test_a_moved_deadline_fires_once_at_its_new_time() -> None:
    deadlines = Deadlines[str]()
    deadlines.set("a", 10)
    deadlines.set("a", 20)
    assert due(deadlines, 19) == []
    deadlines.set("a", 15)
    assert due(deadlines, 15) == ["a"]
    assert due(deadlines, 100) == []


def test_moving_a_deadline_takes_no_memory() -> None:
    deadlines = Deadlines[str]()
    for when in range(10_000):
        deadlines.set("a", when)
    assert len(deadlines._heap) == 1


def test_cancelled_deadlines_do_not_accumulate() -> None:
    deadlines = Deadlines[str]()
    for i in range(10_000):
        deadlines.set(str(i), 300_000)
        if i >= 10:
            deadlines.cancel(str(i - 10))
    assert len(deadlines._heap) < 2_000
    assert len(due(deadlines, 300_000)) == 10


KEYS = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 20)),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(STEPS)
def test_deadlines_behave_like_a_dict(steps: list[tuple[str, str, int]]) -> None:
    deadlines, model, now = Deadlines[str](), dict[str, int](), 0
    for step, key, number in steps:
        if step == "set":
            deadlines.set(key, now + number)
            model[key] = now + number
        elif step == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            now += number
            expected = sorted((when, k) for k, when in model.items() if when <= now)
            assert sorted((model.pop(k), k) for k in due(deadlines, now)) == expected
        assert dict(deadlines.pending) == model
        earliest = deadlines.earliest()
        assert not model or (earliest is not None and earliest <= min(model.values()))
