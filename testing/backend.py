"""Selects whether tests start their own brokers or use a real Kafka cluster.

    pytest --kafka-cluster kafka:9092
    KOHORT_TEST_BOOTSTRAP_SERVERS=kafka:9092 pytest

The fixtures and unittests call this module: `self.enterContext(kafka_for_test())`. pytest
imports the module on startup, so it imports the broker only when the first test needs one.
"""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncKafka
    from .kafka import Kafka

VARIABLE = "KOHORT_TEST_BOOTSTRAP_SERVERS"
OPTION = "--kafka-cluster"

option: str | None = None
"""The command-line option, which takes precedence over the environment variable."""

# A local container or a cluster in the same network accepts connections within milliseconds.
CONNECT_SECONDS = 3

_CORRELATION_ID = b"kohr"
# An ApiVersions request, version 0, without a client id, as a frame.
_API_VERSIONS = b"\0\0\0\x0a" + b"\0\x12\0\0" + _CORRELATION_ID + b"\xff\xff"

# Arguments of Kafka() that do not matter on a real cluster. RealKafka checks `nodes` when it
# starts.
_IRRELEVANT = ("loop", "port", "preset", "nodes")


def real_cluster() -> str | None:
    """Return the bootstrap servers of the real cluster; None if tests start their own brokers."""
    return option or os.environ.get(VARIABLE) or None


def check_reachable(servers: str) -> str | None:
    """Return None if a broker of the cluster responds to ApiVersions within CONNECT_SECONDS;
    otherwise return the reason why each broker failed to respond."""
    import socket

    reasons = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as each,
                each.makefile("rb") as response,
            ):
                each.sendall(_API_VERSIONS)
                # A response begins with its size, which varies, and our correlation id.
                if response.read(8)[4:] == _CORRELATION_ID:
                    return None
                reasons.append(
                    f"{server} is not a Kafka broker: it does not respond to ApiVersions"
                )
        except ValueError:
            reasons.append(f"invalid address {server!r}: expected HOST:PORT")
        except OSError as error:
            reasons.append(f"{server}: {error.strerror or error}")
    return "; ".join(reasons)


def kafka_for_test(**arguments: Any) -> "Kafka":
    """Return `Kafka(**arguments)`, not started, or the real cluster if the tests use one. Skips the
    test (unittest.SkipTest) if an argument requires a kohort broker."""
    servers = real_cluster()
    if servers is None:
        from .kafka import Kafka

        return Kafka(**arguments)
    from .real_cluster import RealKafka

    _check_arguments(arguments)
    return RealKafka(servers, nodes=arguments.get("nodes", 1))


def async_kafka_for_test(**arguments: Any) -> "AsyncKafka":
    """Like kafka_for_test, but waits are coroutines."""
    servers = real_cluster()
    if servers is None:
        from .aio import AsyncKafka

        return AsyncKafka(**arguments)
    from .real_cluster import AsyncRealKafka

    _check_arguments(arguments)
    return AsyncRealKafka(servers, nodes=arguments.get("nodes", 1))


def _check_arguments(arguments: dict[str, Any]) -> None:
    from inspect import signature

    from .kafka import Kafka
    from .real_cluster import skip

    parameters = signature(Kafka).bind(**arguments).signature.parameters
    for name, value in arguments.items():
        if name not in _IRRELEVANT and value and value != parameters[name].default:
            skip(f"Kafka({name}={value!r})")
