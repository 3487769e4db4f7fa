"""Time to the first response of a new process, and of a broker inside a running process."""

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from struct import pack

from . import servers
from .machine import Setting

API_VERSIONS_V0 = pack(">ihhih", 10, 18, 0, 1, -1)

IN_PROCESS = """
import asyncio, json, socket, struct, time
started = time.perf_counter()
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
imported = time.perf_counter()

async def main():
    broker = Broker(BrokerConfig.load(), durability="none")
    await broker.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    writer.write(struct.pack(">ihhih", 10, 18, 0, 1, -1))
    await reader.readexactly(8)
    responded = time.perf_counter()
    writer.close()
    await broker.stop()
    times = {"import_ms": imported - started, "start_ms": responded - imported}
    print(json.dumps({name: seconds * 1e3 for name, seconds in times.items()}))

asyncio.run(main())
"""


def first_response_ms(start: Callable[[], AbstractContextManager[servers.Server]]) -> float:
    """Return the time from the start of the process to the first ApiVersions response."""
    started = time.perf_counter()
    with start() as server:
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(API_VERSIONS_V0)
            assert len(connection.recv(8)) == 8
            return (time.perf_counter() - started) * 1e3


def in_process() -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS], capture_output=True, text=True, check=True
    )
    times: dict[str, float] = json.loads(done.stdout)
    return times


def measure(setting: Setting) -> dict[str, float]:
    rounds = 2 * setting.rounds + 1

    def median(start: Callable[[], AbstractContextManager[servers.Server]]) -> float:
        return statistics.median(first_response_ms(start) for _ in range(rounds))

    folder, kfake = setting.folder, setting.kfake
    in_process_times = [in_process() for _ in range(rounds)]
    results = {
        "kohort serve": median(lambda: servers.kohort("fsync", folder)),
        "Python without imports": statistics.median(python_ms() for _ in range(rounds)),
        "asyncio echo": median(lambda: servers.echo("asyncio")),
        "in-process, import": statistics.median(each["import_ms"] for each in in_process_times),
        "in-process, start": statistics.median(each["start_ms"] for each in in_process_times),
    }
    if kfake is not None:
        results["kfake"] = median(lambda: servers.kfake(kfake, folder))
    return results


def python_ms() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - started) * 1e3
