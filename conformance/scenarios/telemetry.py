"""GetTelemetrySubscriptions and PushTelemetry on a broker without a metrics receiver.

A connection (in these scripts, a client id) has one client instance, which ends with the
connection.
"""

from functools import partial
from typing import Any
from uuid import UUID

from ..broker import CLIENT_METRICS
from ..scenario import scenario
from ..script import DELETE, SET, Script
from .broker_configs import alter

TELEMETRY_BYTES_MAX = 2**20
GZIPPED = bytes.fromhex("1f8b0800000000000003cb4d2d29ca4c2e0600e7aa8a2207000000")
TRUNCATED = GZIPPED[:-8]  # without the checksum
# Subscriptions apply to all clients, so these scenarios run alone.
telemetry = partial(scenario, is_alone=True)


async def get(s: Script, client_id: str | None, number: int) -> int:
    """Send GetTelemetrySubscriptions, and return the subscription id."""
    values = {"client_instance_id": UUID(int=number)}
    response = await s.send("GetTelemetrySubscriptions", 0, values, client_id=client_id)
    found: int = response["subscription_id"]
    return found


async def push(
    s: Script, client_id: str, number: int | None, subscription_id: int, **values: Any
) -> None:
    instance = None if number is None else UUID(int=number)
    ids = {"client_instance_id": instance, "subscription_id": subscription_id}
    await s.send("PushTelemetry", 0, {**ids, **values}, client_id=client_id)


async def subscribe(s: Script, name: str, **values: str) -> None:
    """Change a subscription to these values."""
    keys = {"metrics": None, "interval.ms": None, "match": None}
    changed = keys | {key.replace("_", "."): value for key, value in values.items()}
    await alter(
        s,
        CLIENT_METRICS,
        f"{s.group}.{name}",
        *((key, DELETE if value is None else SET, value) for key, value in changed.items()),
    )
    await s.broker.metadata_applied()


@telemetry(
    "GetTelemetrySubscriptions: a client without an instance id gets one",
    excuse="the instance id is random",
    hides=("client_instance_id", "subscription_id"),
)
async def a_client_gets_an_instance_id(s: Script) -> None:
    response = await s.send("GetTelemetrySubscriptions", 0, {})
    ids = {name: response[name] for name in ("client_instance_id", "subscription_id")}
    ids["client_instance_id"] = UUID(ids["client_instance_id"])
    for api in ("GetTelemetrySubscriptions", "PushTelemetry", "PushTelemetry"):
        await s.send(api, 0, ids, text="with the ids of the response")


@telemetry("PushTelemetry: instance ids that clients cannot have")
async def instance_ids_are_validated(s: Script) -> None:
    for number in (None, 1, 2, 99, 2**127):
        await push(s, f"client {number}", number, 5)
    await get(s, "client", 1)
    await push(s, "client", 1, 5)


@telemetry("Telemetry requests before the push interval has passed are throttled")
async def early_requests_are_throttled(s: Script) -> None:
    subscription = await get(s, "A", 7)
    await get(s, "A", 7)
    await push(s, "A", 7, subscription)
    await push(s, "A", 7, subscription)
    await get(s, "A", 7)
    # B gets its subscription before the first push; C does not.
    await push(s, "B", 8, await get(s, "B", 8))
    await push(s, "C", 9, 5)
    await push(s, "C", 9, 5)


@telemetry("PushTelemetry: after a wrong subscription id, a client may request its own immediately")
async def unknown_subscriptions(s: Script) -> None:
    subscription = await get(s, "A", 7)
    await push(s, "A", 7, subscription + 1)
    for _ in range(2):
        await get(s, "A", 7)
    await push(s, "A", 7, subscription)
    await push(s, "A", 7, subscription + 1, terminating=True)
    await get(s, "A", 7)
    await push(s, "A", 7, subscription)


@telemetry("PushTelemetry: compression types, and metrics that are not compressed with them")
async def compression_types(s: Script) -> None:
    for type_ in (0, 1, 2, 3, 4, 5, -1):
        for metrics in (b"", b"garbage", TRUNCATED, GZIPPED):
            client = f"client {type_} {len(metrics)}"
            number = 1000 * (type_ + 2) + len(metrics)
            subscription = await get(s, client, number)
            values = {"compression_type": type_, "metrics": metrics}
            await push(s, client, number, subscription, **values)
            await get(s, client, number)


@telemetry("PushTelemetry: metrics of telemetry.max.bytes bytes, and one byte more")
async def the_largest_metrics(s: Script) -> None:
    for size in (TELEMETRY_BYTES_MAX, TELEMETRY_BYTES_MAX + 1):
        subscription = await get(s, f"client {size}", size)
        await push(s, f"client {size}", size, subscription, metrics=b"x" * size)
        await get(s, f"client {size}", size)


@telemetry("PushTelemetry: a client that terminates pushes once more, at any time")
async def clients_terminate(s: Script) -> None:
    subscription = await get(s, "A", 7)
    await push(s, "A", 7, subscription)
    await push(s, "A", 7, subscription, terminating=True)
    await push(s, "A", 7, subscription, terminating=True)
    await push(s, "A", 7, subscription)
    await push(s, "A", 7, subscription)
    await get(s, "A", 7)
    # The client is terminating even if the push fails.
    subscription = await get(s, "B", 8)
    await push(s, "B", 8, subscription + 1, terminating=True)
    await push(s, "B", 8, subscription)


@telemetry("A client gets the metrics of all matching subscriptions, and their shortest interval")
async def subscriptions_match_clients(s: Script) -> None:
    names = "org.apache.,b,org.apache.kafka.producer,z,b,Ä𝄞," + ",".join(map(str, range(20)))
    await subscribe(s, "few", metrics="a,b", match="client_id=A|B")
    await subscribe(s, "many", metrics=names, interval_ms="3600000", match="client_id=[BC]")
    await subscribe(s, "one", metrics="c", interval_ms="1000", match="client_id=CC|E,client_id=D")
    for number, client in enumerate(("A", "B", "C", "CC", "D", "E", "a", "AB"), 1000):
        await get(s, client, number)
    of_software = "client_software_name=unknown,client_software_version=unknown"
    await subscribe(s, "one", interval_ms="2000", match=of_software)
    await get(s, "F", 2000)
    await get(s, None, 2001)
    instance = "client_instance_id=AAAAAAAAAAAAAAAAAAAAew"
    await subscribe(s, "one", metrics="d", match=f"{instance},client_source_port=[0-9]+")
    await get(s, "G", 122)
    await get(s, "H", 123)
    await subscribe(s, "one", metrics="e,*", match="client_id=.*")
    await get(s, "I", 3000)
    await get(s, None, 3001)
    await subscribe(s, "one", metrics="")
    await get(s, "J", 4000)
    for name in ("few", "many", "one"):
        await subscribe(s, name)


@telemetry("A change to any subscription replaces the instances of all clients")
async def subscriptions_change(s: Script) -> None:
    before = await get(s, "A", 7)
    await push(s, "A", 7, before, terminating=True)
    await subscribe(s, "other", metrics="a", match="client_id=B")
    await push(s, "A", 7, before)
    await subscribe(s, "own", metrics="a", interval_ms="1000", match="client_id=A")
    await push(s, "A", 7, before)
    after = await get(s, "A", 7)
    await push(s, "A", 7, after)
    await s.pass_ms(1000)
    await push(s, "A", 7, after)
    await push(s, "A", 7, after)
    await s.pass_ms(1000)
    await get(s, "A", 7)
    await push(s, "A", 7, after)
    await get(s, "A", 7)
    await subscribe(s, "own")
    await push(s, "A", 7, after)
    await subscribe(s, "other")
    await get(s, "A", 7)
