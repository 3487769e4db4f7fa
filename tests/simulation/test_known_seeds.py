"""Worlds that once found something, by what they found."""

import pytest
from simulation.explore import report, story_of

KNOWN = {
    "a join that arrives after its successor fences the one who sent both": 53,
    "the first sync of a log fails, later ones do not, and then the power goes": 211,
    "an election is lost with the power, and its epoch stands in a log": 137,
    "the registry's log can be neither written nor read back": 32,
}


@pytest.mark.parametrize("seed", KNOWN.values(), ids=KNOWN)
def test_no_promise_is_broken_when(seed: int) -> None:
    _, violation = story_of(seed)
    if violation is not None:
        pytest.fail(report(seed, violation), pytrace=False)
