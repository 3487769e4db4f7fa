"""A real Kafka of one node (KRaft) in a process of its own, from the jars of tests/kafka."""

import asyncio
import base64
import contextlib
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

VERSION = "4.3.0"  # that of tests/kafka/pom.xml
STARTED_WITHIN_SECONDS = 120  # about six on an idle machine
ONE_COPY = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


@contextlib.asynccontextmanager
async def kafka_broker(jars: Path, folder: Path, settings: Mapping[str, str]) -> AsyncIterator[int]:
    """The port on 127.0.0.1 of a fresh broker, once it accepts connections."""
    folder.mkdir(parents=True)
    port, controller_port = _free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(
        "".join(
            f"{key}={value}\n"
            for key, value in {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(folder / "data"),
                **dict.fromkeys(ONE_COPY, "1"),
                **settings,
            }.items()
        )
    )
    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
    done = await asyncio.to_thread(subprocess.run, tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with (folder / "kafka.log").open("w") as log:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log, cwd=folder
        )
    try:
        await _listening(port, process, folder / "kafka.log")
        yield port
    finally:
        process.kill()  # its data goes with the folder
        process.wait()


async def _listening(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(STARTED_WITHIN_SECONDS * 10):
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(ConnectionRefusedError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"Kafka did not listen in {STARTED_WITHIN_SECONDS} s:\n{log.read_text()}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
