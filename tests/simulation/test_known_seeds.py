"""Seeds that once revealed a bug, by the situation in which the bug occurs."""

import pytest
from simulation.simulation import report, run_seed
from simulation.transactions import run_history

KNOWN = {
    "a delayed join fences the consumer that sent it and its successor": 53,
    "the first sync of a log fails, later ones succeed, and then the power fails": 211,
    "a power failure undoes an election whose epoch is in a log": 137,
    "the registry's log can be neither written nor read": 32,
    "a group is stable, but a regular expression is not resolved yet": 9783,
}
TRANSACTIONS = {
    "the offsets partition of a committed transaction cannot be loaded at first": 7326,
}


@pytest.mark.parametrize("seed", KNOWN.values(), ids=KNOWN)
def test_no_invariant_is_violated_when(seed: int) -> None:
    _, violation = run_seed(seed)
    if violation is not None:
        pytest.fail(report(seed, violation), pytrace=False)


@pytest.mark.parametrize("seed", TRANSACTIONS.values(), ids=TRANSACTIONS)
def test_transactions_are_atomic_when(seed: int) -> None:
    run_history(seed)
