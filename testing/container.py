"""In place of testcontainers' `KafkaContainer`: no Docker, no image, a millisecond.

    from kohort.testing import KafkaContainer  # was: from testcontainers.kafka import …

    with KafkaContainer() as container:
        start_my_service(container.get_bootstrap_server())

It is made as that class is (testcontainers-python 4: modules/kafka, core/container.py). The
`KAFKA_…` variables of `with_env` are settings of the broker; what is about images, networks and
commands changes nothing. There is no container to look into: no `exec`, no `get_logs`.
`container.kafka` is what that class cannot give: the broker to ask and to steer.
"""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ..broker.config.broker_config import BrokerConfig
from ..broker.config.sources import from_environment
from .kafka import Kafka
from .life import HOST

# Where a container says that it listens; here it listens on one address of ours.
_OF_CONTAINERS = ("listener", "advertised.", "inter.broker.", "broker.id", "node.id", "log.dir")


class KafkaContainer:
    """`image` and what else belongs to Docker is taken and not used. `port` is what
    `get_exposed_port` may be asked for; the broker's own is any free one."""

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
        return self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        kafka, self._kafka = self._kafka, None
        if kafka is not None:
            kafka.__exit__(kind)

    def start(self, timeout: float = 30) -> Self:  # noqa: ARG002
        """When this returns, clients can connect."""
        config = BrokerConfig(_settings(self.env))
        for sentence in config.warnings():  # of what only the container's other scripts know, too
            warnings.warn(sentence, stacklevel=2)
        self._kafka = Kafka(config=config).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: ARG002
        """It is gone, with all that was in it."""
        if self._kafka is not None:
            self._kafka.stop()
            self._kafka = None

    @property
    def kafka(self) -> Kafka:
        """The broker, to be asked and steered. Only between `start` and `stop`."""
        if self._kafka is None:
            raise RuntimeError("start it first: with KafkaContainer() as container")
        return self._kafka

    def get_bootstrap_server(self) -> str:
        """`127.0.0.1:34567`"""
        return self.kafka.bootstrap_servers

    def get_container_host_ip(self) -> str:
        """`127.0.0.1`"""
        return HOST

    def get_exposed_port(self, port: int) -> int:  # noqa: ARG002
        """The broker's, whatever `port` is."""
        return self.kafka.broker.port

    # --- how a container is made: each returns it

    def with_kraft(self) -> Self:
        """Kafka without ZooKeeper: there is none here either way."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:  # noqa: ARG002
        """Taken, and not used."""
        return self

    def with_env(self, key: str, value: str) -> Self:
        """`KAFKA_NUM_PARTITIONS` is `num.partitions`."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: str) -> Self:
        """Several of those."""
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def _as_it_is(self, *_: object, **__: object) -> Self:
        """Of no meaning where there is no container."""
        return self

    with_bind_ports = with_command = with_exposed_ports = with_kwargs = with_name = _as_it_is
    with_network = with_network_aliases = with_volume_mapping = maybe_emulate_amd64 = _as_it_is
    with_copy_into_container = with_tmpfs_mount = waiting_for = _as_it_is

    if not TYPE_CHECKING:  # which would take every name for one that is there

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"KafkaContainer has no {name}: there is no container here; `.kafka` is the "
                "broker, and docs/testing.md says what it can be asked and made to do"
            )


def _settings(env: Mapping[str, str]) -> dict[str, str]:
    given = ((each.key, each.text) for each in from_environment(env))
    return {key: text for key, text in given if not key.startswith(_OF_CONTAINERS)}
