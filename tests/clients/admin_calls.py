"""Results of admin clients as plain values, without values that differ between brokers or runs."""

import enum
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import confluent_kafka as ck
import confluent_kafka.admin as cka
from kohort.testing.deadline import poll

TIMEOUT_SECONDS = 15
READY_SECONDS = 30  # for the coordinators of a new Kafka
# Values that depend on the folder, the cluster, other parts of the metadata log, or the time.
HIDDEN = re.compile(
    r".*(_bytes|_dir|timestamp|_time|_ms|cluster_id|finalized_epoch|log_end_offset|high_watermark"
    r"|leader_epoch|listeners)"
)
UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}")

Calls = Iterator[tuple[str, Callable[[], Any]]]


def shown(value: Any, port: str) -> Any:
    """Return the result of a call as JSON: errors as text, futures as their results."""
    if hasattr(value, "result"):
        return attempt(lambda: value.result(TIMEOUT_SECONDS), port)
    if isinstance(value, Mapping):
        pairs = sorted((str(shown(k, port)), k) for k in value)
        return {k: "hidden" if HIDDEN.fullmatch(k) else shown(value[o], port) for k, o in pairs}
    if hasattr(value, "_asdict"):
        return shown(value._asdict(), port)
    if isinstance(value, list | tuple | set | frozenset):
        return sorted((shown(each, port) for each in value), key=str)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, bool | int | float | None):
        return "PORT" if str(value) == port else value
    if isinstance(value, str | bytes | BaseException | UUID | ck.KafkaError):
        kind = f"{type(value).__name__}: " if isinstance(value, BaseException) else ""
        return UUID_TEXT.sub("ID", f"{kind}{value}".replace(port, "PORT"))
    if hasattr(value, "to_dict"):
        return shown(value.to_dict(), port)
    if isinstance(value, cka.ConfigResource):
        return f"{value.restype.name} {value.name}"
    names = vars(value) if hasattr(value, "__dict__") else dir(value)
    fields = {n: getattr(value, n) for n in names if not n.startswith("_")}
    plain = {n: each for n, each in fields.items() if not callable(each)}
    return {type(value).__name__: shown(plain, port)}


def attempt(call: Callable[[], Any], port: str) -> Any:
    try:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            return shown(call(), port)
    except Exception as error:  # the result, to be compared
        return shown(error, port)


def ready(call: Callable[[], Any]) -> None:
    """Repeat a call until it raises no error."""
    errors: list[Exception] = []

    def succeeds() -> bool:
        try:
            call()
        except Exception as error:
            errors.append(error)
            return False
        return True

    if not poll(succeeds, READY_SECONDS):
        raise errors[-1]


def later(call: Callable[[], Any], is_applied: Callable[[Any], object]) -> Callable[[], Any]:
    """Repeat a call until its result shows an earlier change, which Kafka applies with a delay."""

    def applied() -> Any:
        result = call()
        return result if is_applied(result) else None

    return lambda: poll(applied, TIMEOUT_SECONDS)
