"""Waiting for a signal handler."""

import subprocess
import sys

import pytest

WAIT_OFTEN = """
import random, signal
from kohort.cli.signals import SignalFlag

signal.signal(signal.SIGALRM, lambda *_: flag.set())
for _ in range(200):
    flag = SignalFlag()
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 4e-5))
    assert flag.wait()
assert not SignalFlag().wait(0.01)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer signals")
def test_a_handler_may_interrupt_any_moment_of_a_wait() -> None:
    # With threading.Event, one of the first fifty waits lasts forever.
    subprocess.run([sys.executable, "-c", WAIT_OFTEN], check=True, timeout=60)
