"""A Kafka node (KRaft mode) with the jars of tests/kafka and a data folder."""

import contextlib
import signal
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from kohort.log.checkpoint import new_cluster_id
from kohort.testing.deadline import poll
from support.java import archive, archiving, java
from support.wire import is_refused

MEMORY = "-Xmx512m"
STARTED_WITHIN_SECONDS = 120  # a start takes about 6 s on an idle machine
ONE_COPY = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


class KafkaFolder:
    """A data folder of Kafka. `settings` apply to every broker that runs on it. With `users`, whose
    names are also their passwords, there is a second listener, on `sasl_port`, for SASL/PLAIN; with
    a `certificate` (a PEM file with its key) there is a third one, on `tls_port`, for SASL/SCRAM
    over TLS."""

    sasl_port = 0
    tls_port = 0

    def __init__(
        self,
        jars: Path,
        folder: Path,
        settings: Mapping[str, str],
        users: Collection[str] = (),
        certificate: Path | None = None,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "kafka.log"
        self._settings = settings
        self._users = users
        self._certificate = certificate
        self._jars = jars

    def format(self) -> None:
        """Format the folder with Kafka's storage tool and a new cluster id."""
        options = ["-t", new_cluster_id(), "-c", str(self._properties({}, 0, 1))]
        tool = [*java(self._jars, "broker"), "kafka.tools.StorageTool", "format", *options]
        done = subprocess.run(tool, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    @contextlib.contextmanager
    def running(
        self, settings: Mapping[str, str] | None = None, *, ends_well: bool = True
    ) -> Iterator[str]:
        """Yield HOST:PORT of a broker on the folder. At the end, it is stopped or, if `ends_well`
        is false, killed."""
        port, controller_port, self.sasl_port, self.tls_port = free_ports(4)
        sasl = self._sasl_properties(port, controller_port) if self._users else {}
        properties = self._properties({**sasl, **(settings or {})}, port, controller_port)
        with contextlib.ExitStack() as stack:
            if archive(self._jars, "broker").exists():
                jvm = java(self._jars, "broker", MEMORY)
            else:
                jvm, ends_well = stack.enter_context(archiving(self._jars, "broker", MEMORY)), True
            log = stack.enter_context(self.log.open("w"))
            command = [*jvm, "kafka.Kafka", str(properties)]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
            try:
                self._wait(port, process)
                yield f"127.0.0.1:{port}"
                if ends_well:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(STARTED_WITHIN_SECONDS) in (0, 143), self.log.read_text()
            finally:
                process.kill()
                process.wait()

    def _properties(self, more: Mapping[str, str], port: int, controller_port: int) -> Path:
        path = self.folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            **dict.fromkeys(ONE_COPY, "1"),
            **self._settings,
            **more,
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _sasl_properties(self, port: int, controller_port: int) -> dict[str, str]:
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        users = " ".join(f'user_{name}="{name}"' for name in self._users)
        clients = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{self.sasl_port}"
        tls: dict[str, str] = {}
        if self._certificate is not None:
            clients += f",TLS://127.0.0.1:{self.tls_port}"
            tls = {
                "listener.name.tls.sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.tls.scram-sha-512.sasl.jaas.config": (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                ),
                "listener.name.tls.ssl.keystore.type": "PEM",
                "listener.name.tls.ssl.keystore.location": str(self._certificate),
            }
        return {
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": clients,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f"{login} {users};",
            **tls,
        }

    def _wait(self, port: int, process: "subprocess.Popen[bytes]") -> None:
        def is_listening() -> bool:
            assert process.poll() is None, self.log.read_text()
            return not is_refused(f"127.0.0.1:{port}")

        assert poll(is_listening, STARTED_WITHIN_SECONDS), self.log.read_text()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
