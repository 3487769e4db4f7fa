"""A real Kafka of one node for scripts to be played on, in an event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from support.kafka_process import KafkaFolder

VERSION = "4.3.0"  # that of tests/kafka/pom.xml


@contextlib.asynccontextmanager
async def kafka_broker(jars: Path, folder: Path, settings: Mapping[str, str]) -> AsyncIterator[int]:
    """The port on 127.0.0.1 of a fresh broker, once it accepts connections."""
    folder.mkdir(parents=True)
    kafka = KafkaFolder(jars, folder, settings)
    await asyncio.to_thread(kafka.format)
    with contextlib.ExitStack() as stack:
        running = kafka.running(ends_well=False)  # its data goes with the folder
        address = await asyncio.to_thread(stack.enter_context, running)
        yield int(address.rpartition(":")[2])
