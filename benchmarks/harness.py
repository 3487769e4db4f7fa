"""The time that kohort.testing adds to a test: to import the plugin, and to start, reset and stop a
broker.

The baselines are the import of pytest, and an asyncio server that starts, or closes and restarts.
"""

import json
import statistics
import subprocess
import sys

from .machine import Setting

TIMES = 20

IMPORT = """
import json, time
started = time.perf_counter()
import pytest
loaded = time.perf_counter()
import kohort.testing.plugin
print(json.dumps([(time.perf_counter() - loaded) * 1e3, (loaded - started) * 1e3]))
"""

# The state after a larger test: topics with records, and groups with commits.
BROKERS = """
import asyncio, json, sys, time
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata
from kohort.testing import Kafka
from kohort.testing.loop_thread import LoopThread

def fill(kafka):
    for number in range(10):
        kafka.topic(f"topic-{number}", partitions=3).produce([b"x" * 100] * 100)
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        for number in range(10):
            partition = TopicPartition(f"topic-{number}", 0)
            admin.alter_group_offsets(f"group-{number}", {partition: OffsetAndMetadata(1, "", -1)})

def ms(function):
    started = time.perf_counter()
    function()
    return (time.perf_counter() - started) * 1e3

async def listen():
    return await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)

async def relisten(server):
    server.close()
    await server.wait_closed()
    return await listen()

def measure(loop):
    kafka = Kafka(loop=loop)
    start = ms(kafka.start)
    fill(kafka)
    reset, stop = ms(kafka.reset), ms(kafka.stop)
    servers = []
    server_start = ms(lambda: servers.append(loop.run(listen())))
    server_restart = ms(lambda: servers.append(loop.run(relisten(servers.pop()))))
    servers[0].close()
    return start, reset, stop, server_start, server_restart

with LoopThread() as loop:
    measure(loop)
    print(json.dumps([measure(loop) for _ in range(int(sys.argv[1]))]))
"""


def measure(setting: Setting) -> dict[str, dict[str, float]]:
    """Return median milliseconds of kohort and of the baseline."""
    rounds = setting.rounds
    imports = [_run(IMPORT) for _ in range(2 * rounds + 1)]
    times = [row for _ in range(rounds) for row in _run(BROKERS, str(setting.scaled(TIMES)))]
    plugin, pytest = map(statistics.median, zip(*imports, strict=True))
    medians = map(statistics.median, zip(*times, strict=True))
    start, reset, stop, server_start, server_restart = medians
    return {
        "import of the plugin (pytest)": {"kohort": plugin, "baseline": pytest},
        "start of a broker (asyncio server)": {"kohort": start, "baseline": server_start},
        "reset of a broker (server restart)": {"kohort": reset, "baseline": server_restart},
        "stop of a broker": {"kohort": stop},
    }


def _run(code: str, *args: str) -> list[list[float]]:
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=True
    )
    rows: list[list[float]] = json.loads(done.stdout)
    return rows
