"""Throughput of records: megabytes per second of large batches, produced and then fetched.

The clients are Kafka's ProducerPerformance and ConsumerPerformance if configured, else the load
client.
"""

import os
import re
import shlex
import subprocess
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from . import servers
from .load_python import call, create_topic
from .machine import Setting

PARTITIONS = 4
IN_FLIGHT = 5
MEGABYTES = 300
# Kafka's tools send more records, because they need a warm-up.
TOOL_RECORDS = 600_000
RECORD_BYTES = 1_000
BATCH_BYTES = 100_000
# A command that runs a class of Kafka's distribution: COMMAND CLASS ARGUMENTS.
KAFKA_TOOL = "KOHORT_BENCH_KAFKA_TOOL"
PRODUCED = re.compile(r"^\d+ records sent, .*?\(([\d.]+) MB/sec\)", re.MULTILINE)


def measure(setting: Setting) -> dict[str, Any]:
    tool = shlex.split(os.environ.get(KAFKA_TOOL, ""))
    if not tool and not setting.client.supports("produce"):
        return {}
    results: dict[str, Any] = {
        "by": "Kafka's tools" if tool else "the load client",
        "produce": {},
        "consume": {},
    }
    for context in contexts(setting):
        with context as server:
            for round_number in range(setting.rounds):
                topic = f"transfer-{round_number}"
                if tool:
                    rates = by_tools(setting, tool, server, topic)
                else:
                    rates = by_client(setting, server, topic)
                for mode, rate in rates.items():
                    results[mode][server.name] = max(results[mode].get(server.name, 0.0), rate)
    return results


def contexts(setting: Setting) -> list[AbstractContextManager[servers.Server]]:
    compared: list[AbstractContextManager[servers.Server]] = [
        servers.kohort("fsync", setting.folder),
        servers.kohort("none", setting.folder),
    ]
    if setting.kfake is not None:
        compared.append(servers.kfake(setting.kfake, setting.folder))
    running = servers.real_kafka()
    if servers.can_start_kafka():
        compared.append(servers.new_kafka(setting.folder))
    elif running is not None:
        compared.append(nullcontext(running))
    return compared


def by_client(setting: Setting, server: servers.Server, topic: str) -> dict[str, float]:
    return {
        mode: setting.client.run(
            server,
            mode,
            conns=PARTITIONS,
            depth=IN_FLIGHT,
            megabytes=setting.scaled(MEGABYTES),
            topic=topic,
        )["megabytes_s"]
        for mode in ("produce", "consume")
    }


def by_tools(
    setting: Setting, tool: list[str], server: servers.Server, topic: str
) -> dict[str, float]:
    topic = f"kohort-bench-{topic}-{os.getpid()}"  # unique in a running cluster
    call(server.address, create_topic(topic, PARTITIONS))
    records = setting.scaled(TOOL_RECORDS)
    size = ("--num-records", str(records), "--record-size", str(RECORD_BYTES))
    properties = (f"bootstrap.servers={server.address}", "acks=1", f"batch.size={BATCH_BYTES}")
    arguments = ("--topic", topic, *size, "--throughput", "-1", "--producer-props", *properties)
    produced = run([*tool, "org.apache.kafka.tools.ProducerPerformance", *arguments])
    arguments = ("--bootstrap-server", server.address, "--topic", topic, "--messages", str(records))
    consumed = run(
        [*tool, "org.apache.kafka.tools.ConsumerPerformance", "--hide-header", *arguments]
    )
    # start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s
    rows = [line.split(", ") for line in consumed.splitlines() if line.count(", ") == 9]
    rates = PRODUCED.findall(produced)
    if not rates or len(rows) != 1 or int(rows[0][4]) < records:
        raise SystemExit(
            f"unexpected output of Kafka's tools for {server.name}:\n{produced}\n{consumed}"
        )
    # The last line contains the totals.
    return {"produce": float(rates[-1]), "consume": float(rows[0][8])}


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
