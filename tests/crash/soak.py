"""Commit at full speed for minutes, while the broker compacts continuously and is sometimes killed.
Measure memory and disk, and check that nothing is lost.

    make crash [LONG=600] [CONNECTIONS=50] [KILLS=3]

Fails if an acknowledged commit is lost, an offset appears that was not sent, `kohort log verify`
fails, memory grows between two kills, or the logs exceed their limit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from crash.commits import (
    COMPACTING,
    GroupCommits,
    check,
    commit_and_kill,
    create_topic,
    log_bytes,
)
from support.running_broker import BrokerProcess, config_flags, kohort, start_broker
from support.wire import Client

GROUPS_OF_A_CONNECTION = 20
# A placeholder for the offset to commit, in encoded requests.
PLACEHOLDER = 0x0123_4567_89AB_CDEF
REPORT_SECONDS = 10.0
# Between two kills: the memory of a broker grows during its first seconds.
SECONDS_MIN = 10.0
# From the second quarter of the time between two kills to the last quarter.
MEMORY_GROWTH_MAX = 0.15
# Two partitions, each with a few segments of 1 MiB before compaction, plus as much for the output
# of a running compaction.
LOG_BYTES_MAX = 64 * 1024 * 1024
MIB = 1024 * 1024


class SoakCommits(GroupCommits):
    """Patches the offset into an encoded request, because encoding is slower than the broker."""

    template = b""

    def leader_epoch_and_metadata(self, offset: int) -> tuple[int, str]:
        return 7, "x" * 100

    def encode(self, client: Client, offset: int) -> bytes:
        if not self.template:
            self.template = super().encode(client, PLACEHOLDER)
        return self.template.replace(PLACEHOLDER.to_bytes(8, "big"), offset.to_bytes(8, "big"))


class Sample(NamedTuple):
    seconds: float
    commits: int
    memory_bytes: int
    log_bytes: int

    def line(self) -> str:
        return (
            f"{self.seconds:7.1f} s  {self.commits:>11,} commits  "
            f"{self.memory_bytes / MIB:7.1f} MiB of memory  {self.log_bytes / MIB:6.1f} MiB of logs"
        )


def sample_until_killed(
    broker: BrokerProcess,
    groups: list[list[GroupCommits]],
    data: Path,
    started: float,
    until: float,
) -> list[Sample]:
    samples: list[Sample] = []

    def sample_and_kill() -> None:
        reported = time.monotonic()
        while (now := time.monotonic()) < until and broker.process.poll() is None:
            time.sleep(min(0.25, until - now))
            commits = sum(group.acknowledged or 0 for own in groups for group in own)
            samples.append(Sample(now - started, commits, broker.resident_bytes, log_bytes(data)))
            if now > reported + REPORT_SECONDS:
                reported = now
                print(samples[-1].line(), flush=True)
        broker.process.kill()

    commit_and_kill(broker, groups, kill=sample_and_kill, next_step=lambda: 1)
    return samples


def check_memory(samples: list[Sample]) -> None:
    """Compare the second quarter of the samples with the last one."""
    quarter = len(samples) // 4
    early = max(sample.memory_bytes for sample in samples[quarter : 2 * quarter])
    growth = max(sample.memory_bytes for sample in samples[3 * quarter :]) / early - 1
    assert growth <= MEMORY_GROWTH_MAX, f"memory grew by {growth:.0%}"


def run(folder: Path, seconds: float, connections: int, kills: int) -> None:
    data = folder / "data"
    groups: list[list[GroupCommits]] = [
        [SoakCommits(f"group-{number}-{n}") for n in range(GROUPS_OF_A_CONNECTION)]
        for number in range(connections)
    ]
    flags = ("--port", "0", "--data-dir", data, *config_flags(COMPACTING))
    started = time.monotonic()
    for number in range(kills + 1):
        restarted = time.monotonic()
        with start_broker(folder, *flags) as broker:
            if not number:
                create_topic(broker)
            check(broker, groups)
            print(f"checked {time.monotonic() - restarted:.2f} s after the start", flush=True)
            until = time.monotonic() + seconds / (kills + 1)
            samples = sample_until_killed(broker, groups, data, started, until)
        print(f"{samples[-1].line()}: killed", flush=True)
        check_memory(samples)
        largest = max(sample.log_bytes for sample in samples)
        assert largest <= LOG_BYTES_MAX, f"the logs grew to {largest:,} bytes"
    with start_broker(folder, *flags) as broker:
        check(broker, groups)
        assert broker.stop() == 0
    verified = kohort("log", "verify", data)
    print(verified.stdout.splitlines()[-1])
    assert verified.returncode == 0
    print(f"{samples[-1].commits / seconds:,.0f} commits per second")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--kills", type=int, required=True)
    given = parser.parse_args()
    if given.seconds < (least := SECONDS_MIN * (given.kills + 1)):
        parser.error(
            f"invalid --seconds {given.seconds:g}: expected at least {least:g} with "
            f"{given.kills} kills"
        )
    with tempfile.TemporaryDirectory(prefix="kohort-soak-") as name:
        run(Path(name), **vars(given))


if __name__ == "__main__":
    main()
