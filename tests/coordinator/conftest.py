"""The coordinator harness (support/coordinator.py).

These tests do not repeat the responses that scenarios compare with Kafka's (conformance/scenarios,
tests/parity/test_scenarios.py). They are about records, events, deadlines to the millisecond,
loading, random histories, and what differs from Kafka.
"""

import pytest
from support.coordinator import CoordinatorHarness


@pytest.fixture
def harness() -> CoordinatorHarness:
    """A coordinator with an initial rebalance delay of zero, which is still a timer."""
    return CoordinatorHarness(group_initial_rebalance_delay_ms=0)
