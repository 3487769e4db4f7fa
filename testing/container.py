"""`KafkaContainer`: a drop-in replacement for testcontainers' class, without Docker.

    from kohort.testing import KafkaContainer  # was: from testcontainers.kafka import …
    with KafkaContainer() as container:
        start_my_service(container.get_bootstrap_server())

It has the methods of testcontainers-python 4 (modules/kafka, core/container.py), except those that
inspect a container, such as `exec` and `get_logs`. The `KAFKA_…` variables that `with_env` sets
become broker settings; methods for images, networks and commands have no effect.
`container.kafka` is the broker, with the rest of the harness.
"""

import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ..broker.config.broker_config import BrokerConfig
from ..broker.config.sources import from_environment
from .kafka import Kafka
from .lifecycle import LOCALHOST

# Keys with these prefixes are ignored: they set addresses and folders inside a container.
_CONTAINER_KEYS = ("listener", "advertised.", "inter.broker.", "broker.id", "node.id", "log.dir")


class KafkaContainer:
    """A broker with the methods of testcontainers' KafkaContainer. `image`, `port` and Docker's
    arguments are accepted but have no effect. The broker listens on a free port."""

    def __init__(
        self,
        image: str = "confluentinc/cp-kafka:7.6.0",
        port: int = 9093,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        self.image = image
        self.port = port
        self.env: dict[str, str] = {}
        self._kafka: Kafka | None = None

    def __enter__(self) -> Self:
        return self._start()

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        kafka, self._kafka = self._kafka, None
        if kafka is not None:
            kafka.__exit__(kind, error, traceback)

    def start(self, timeout: float = 30) -> Self:  # noqa: ARG002
        """Start the broker. Clients can connect when the method returns."""
        return self._start()

    def _start(self) -> Self:
        if self._kafka is not None:
            raise RuntimeError("The container is already started")
        given = [
            each for each in from_environment(self.env) if not each.key.startswith(_CONTAINER_KEYS)
        ]
        config = BrokerConfig(
            {each.key: each.text for each in given}, {each.key: each.origin for each in given}
        )
        for message in config.warnings():  # including keys meant for the container's scripts
            warnings.warn(message, stacklevel=3)
        self._kafka = Kafka(config=config).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: ARG002
        """Stop the broker; its data is lost."""
        if self._kafka is not None:
            self._kafka.stop()
            self._kafka = None

    @property
    def kafka(self) -> Kafka:
        """The broker, between `start` and `stop`."""
        if self._kafka is None:
            raise RuntimeError("The container is not started: use `with KafkaContainer() as …`")
        return self._kafka

    def get_bootstrap_server(self) -> str:
        """Return the address of the broker, such as `127.0.0.1:34567`."""
        return self.kafka.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """Return `127.0.0.1`."""
        return LOCALHOST

    def get_exposed_port(self, port: int) -> int:  # noqa: ARG002
        """Return the broker's port, regardless of `port`."""
        return self.kafka.broker.port

    # --- configuration: each method returns the container

    def with_env(self, key: str, value: str) -> Self:
        """Set a configuration key: `KAFKA_NUM_PARTITIONS` is `num.partitions`."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: str) -> Self:
        """Set several variables."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def _no_effect(self, *_: object, **__: object) -> Self:
        """Do nothing, because there is no container."""
        return self

    with_bind_ports = with_command = with_exposed_ports = with_kwargs = with_name = _no_effect
    with_network = with_network_aliases = with_volume_mapping = maybe_emulate_amd64 = _no_effect
    with_copy_into_container = with_tmpfs_mount = waiting_for = _no_effect
    with_cluster_id = with_kraft = _no_effect

    if not TYPE_CHECKING:  # otherwise type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"KafkaContainer has no {name}, because there is no container: `.kafka` is the "
                "broker (see docs/testing.md)"
            )
