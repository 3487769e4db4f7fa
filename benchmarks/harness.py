"""What the harness costs a test: pytest's start, a broker in its process, a view as new.

All of it is measured in processes of its own, and each beside the least that could do the same:
the import of pytest, a bare asyncio server that starts or closes and listens again.
"""

import json
import statistics
import subprocess
import sys

from .machine import Setting

TIMES = 20

IMPORT = """
import json, time
began = time.perf_counter()
import pytest
loaded = time.perf_counter()
import kohort.testing.plugin
print(json.dumps([(time.perf_counter() - loaded) * 1e3, (loaded - began) * 1e3]))
"""

# Topics with records, and groups with commits: what a larger test leaves.
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
            place = TopicPartition(f"topic-{number}", 0)
            admin.alter_group_offsets(f"group-{number}", {place: OffsetAndMetadata(1, "", -1)})

def ms(what):
    began = time.perf_counter()
    what()
    return (time.perf_counter() - began) * 1e3

async def listen():
    return await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)

async def relisten(server):
    server.close()
    await server.wait_closed()
    return await listen()

def measured(loop):
    kafka = Kafka(loop=loop)
    start = ms(kafka.start)
    fill(kafka)
    reset, stop = ms(kafka.reset), ms(kafka.stop)
    servers = []
    bare = ms(lambda: servers.append(loop.run(listen())))
    again = ms(lambda: servers.append(loop.run(relisten(servers.pop()))))
    servers[0].close()
    return start, reset, stop, bare, again

with LoopThread() as loop:
    measured(loop)
    print(json.dumps([measured(loop) for _ in range(int(sys.argv[1]))]))
"""


def measure(setting: Setting) -> dict[str, dict[str, float]]:
    """Milliseconds, medians: `kohort`, and `beside` what it is to be compared with."""
    rounds = setting.rounds
    imports = [_told(IMPORT) for _ in range(2 * rounds + 1)]
    times = [row for _ in range(rounds) for row in _told(BROKERS, str(setting.scaled(TIMES)))]
    plugin, pytest = map(statistics.median, zip(*imports, strict=True))
    start, reset, stop, bare, again = map(statistics.median, zip(*times, strict=True))
    return {
        "import of the plugin; of pytest": {"kohort": plugin, "beside": pytest},
        "start of a broker; of a bare server": {"kohort": start, "beside": bare},
        "reset of a broker; a bare server anew": {"kohort": reset, "beside": again},
        "end of a broker": {"kohort": stop},
    }


def _told(code: str, *args: str) -> list[list[float]]:
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=True
    )
    told: list[list[float]] = json.loads(done.stdout)
    return told
