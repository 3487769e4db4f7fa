"""Requests over TLS after SASL/PLAIN, compared with plain text on the same kind of server."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kohort.broker.security.certificates import CertificateAuthority

from . import loads, servers
from .machine import Setting

LOADS = (("commit", 50, 20), ("commit", 50, 1), ("fetch", 50, 20), ("heartbeat", 50, 20))
USER = "alice:alice-secret"
SECURED = "SASL_SSL"


def measure(setting: Setting) -> dict[str, Any]:
    if not setting.client.supports("heartbeat"):
        return {}  # the Python client has no TLS
    authority = CertificateAuthority(setting.folder / "authority")
    pem = authority.issue("server.pem", ["localhost", "127.0.0.1"])
    options = ("-ca", str(authority.ca_file), "-user", USER)
    with ExitStack() as stack:
        plain, secured = [stack.enter_context(servers.kohort("os", setting.folder))], []
        secured.append(stack.enter_context(_kohort(setting.folder, pem)))
        if setting.kfake is not None:
            plain.append(stack.enter_context(servers.kfake(setting.kfake, setting.folder)))
            command, env = [str(setting.kfake)], {"KFAKE_PEM": str(pem)}
            secure_kfake = servers.running(f"kfake, {SECURED}", command, env=env)
            secured.append(stack.enter_context(secure_kfake))
        if servers.can_start_kafka():
            both = stack.enter_context(_kafka(setting.folder, pem))
            plain.append(both[0])
            secured.append(both[1])
        running = [*plain, *(replace(each, load_options=options) for each in secured)]
        return {
            f"{mode} {conns}×{depth}": loads.best(setting, running, mode, conns, depth)
            for mode, conns, depth in LOADS
        }


@contextlib.contextmanager
def _kohort(folder: Path, pem: Path) -> Iterator[servers.Server]:
    with servers.data_dir(folder) as data:
        command = servers.kohort_command(
            "os", data, options=("ssl.keystore.type=PEM", f"ssl.keystore.location={pem}")
        )
        command += ["--security", SECURED, "--user", USER]
        with servers.running(f"kohort os, {SECURED}", command) as server:
            yield server


@contextlib.contextmanager
def _kafka(folder: Path, pem: Path) -> Iterator[tuple[servers.Server, servers.Server]]:
    """One Kafka with a plain and a secured listener."""
    secured_port = servers.free_port() + 1_000
    name, _, password = USER.partition(":")
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{name}="{password}";'
    )
    options = (
        (
            "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},"
            f"SECURED://127.0.0.1:{secured_port}"
        ),
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SECURED://127.0.0.1:{secured_port}",
        f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:{SECURED}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={pem}",
        "listener.name.secured.sasl.enabled.mechanisms=PLAIN",
        f"listener.name.secured.plain.sasl.jaas.config={jaas}",
    )
    with servers.data_dir(folder) as data, servers.kafka(data, options) as plain:
        secured = replace(plain, name=f"Kafka, {SECURED}", address=f"127.0.0.1:{secured_port}")
        yield plain, secured
