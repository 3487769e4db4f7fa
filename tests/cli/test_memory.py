"""Freed memory is kept for the next large answer."""

import os
import platform
import subprocess
import sys

import pytest
from kohort.cli.memory import TOLD

# An answer of 4 MiB, joined from what was read, a hundred times; prints how many pages of it
# had to be had from the system.
ANSWERS = """
import resource
from kohort.cli import memory
{keep}
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for warm_up in range(5):
    b"".join([bytes(2**20) for _ in range(4)])
before = faults()
for answer in range(100):
    b"".join([bytes(2**20) for _ in range(4)])
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that is told")
def test_a_second_answer_takes_no_new_pages() -> None:
    assert faults("memory.keep_freed()") < 100 < faults("")


def faults(keep: str) -> int:
    command = [sys.executable, "-c", ANSWERS.format(keep=keep)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(TOLD)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)
