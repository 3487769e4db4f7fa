"""The coordinator harness (support/coordinator.py)."""

import pytest
from support.coordinator import CoordinatorHarness


@pytest.fixture
def harness() -> CoordinatorHarness:
    """A coordinator with an initial rebalance delay of zero, which is still a timer."""
    return CoordinatorHarness(group_initial_rebalance_delay_ms=0)
