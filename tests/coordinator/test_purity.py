"""The coordinator uses no files, sockets or clocks."""

import builtins
import os
import socket
import subprocess
import sys
import time
from types import ModuleType

import pytest
from kohort.coordinator.classic.states import State
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import consumer_protocols


def forbid(patch: pytest.MonkeyPatch, module: ModuleType, *allowed: str) -> None:
    """Replace every function of a module with one that fails."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError(f"{module.__name__} was used")

    for name in dir(module):
        if callable(getattr(module, name)) and not name.startswith("_") and name not in allowed:
            patch.setattr(module, name, fail)


def play_the_life_of_a_group() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0, offsets_retention_ms=60_000)
    first, second = harness.stable_group(None, "static", protocols=consumer_protocols("t"))
    assert harness.commit(("t", 0, 7), member_id=first, generation=1) is ErrorCode.none
    assert harness.fetch(("t", (0,))).topics[0][1][0].committed_offset == 7
    assert harness.heartbeat(second, 1, instance="static") is ErrorCode.none
    harness.leave(first)
    harness.advance(120_000)
    assert harness.state is State.EMPTY
    harness.restart()
    harness.advance(700_000)
    assert GROUP not in harness.coordinator.groups, "expired"


def test_a_group_needs_no_files_sockets_or_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first run is unrestricted, because a coverage tracer looks up each file once.
    play_the_life_of_a_group()
    with monkeypatch.context() as patch:
        forbid(patch, time)
        forbid(patch, socket)
        forbid(patch, os, "fspath")
        patch.setattr(builtins, "open", lambda *_: pytest.fail("a file was opened"))
        play_the_life_of_a_group()


def test_importing_the_coordinator_imports_no_codec_and_no_log() -> None:
    """The import contract does not see dynamic imports."""
    probe = (
        "import sys, kohort.coordinator.coordinator\n"
        "pure = 'assignors', 'coordinator', 'offsets', 'protocol'\n"
        "print([m for m in sys.modules if m.startswith('kohort.') and m.split('.')[1] not in pure])"
        "\n"
        "print('kohort.offsets.record_codec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\nFalse\n", "")
