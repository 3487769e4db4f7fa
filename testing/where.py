"""Where tests run: on brokers of their own, or on the real cluster that the environment names.

    KOHORT_TEST_BOOTSTRAP_SERVERS=kafka:9092 pytest

The fixtures ask here, and so may a unittest: `self.enterContext(kafka_for_test())`. Imports nothing
of either before it is asked: pytest starts with it.
"""

import os
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .aio import AsyncKafka
    from .kafka import Kafka

VARIABLE = "KOHORT_TEST_BOOTSTRAP_SERVERS"

# Of Kafka()'s arguments those that a test does without: its timing, and where it listens.
_WITHOUT = ("loop", "port", "preset")


def real_cluster() -> str | None:
    """Its bootstrap servers; None: there is none."""
    return os.environ.get(VARIABLE) or None


def kafka_for_test(**how: Any) -> "Kafka":
    """A Kafka() of these arguments, or the real cluster where those do not matter. Skips the test
    (unittest.SkipTest) where they do. To be started, as Kafka() is."""
    servers = real_cluster()
    if servers is None:
        from .kafka import Kafka

        return Kafka(**how)
    from .real import RealKafka

    return RealKafka(_without(servers, how))


def async_kafka_for_test(**how: Any) -> "AsyncKafka":
    """The same, with its waits awaited."""
    servers = real_cluster()
    if servers is None:
        from .aio import AsyncKafka

        return AsyncKafka(**how)
    from .real import AsyncRealKafka

    return AsyncRealKafka(_without(servers, how))


def skip(what: str) -> NoReturn:
    """Skips the test, of pytest and of unittest."""
    from unittest import SkipTest

    raise SkipTest(
        f"{what} needs a broker that can be steered, and {VARIABLE} names a real cluster."
    )


def _without(servers: str, how: dict[str, Any]) -> str:
    from inspect import signature

    from .kafka import Kafka

    # What Kafka() does by itself is nothing that a test needs to have been asked for.
    known = signature(Kafka).bind(**how).signature.parameters
    for name, value in how.items():
        if name not in _WITHOUT and value and value != known[name].default:
            skip(f"Kafka({name}={value!r})")
    return servers
