"""Worlds for the coordinator: see group_world.py."""

import pytest
from support.coordinator import World


@pytest.fixture
def w() -> World:
    """A world in which the initial round takes no time, but its timer must still fire."""
    return World(group_initial_rebalance_delay_ms=0)
