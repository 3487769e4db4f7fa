"""AlterClientQuotas, DescribeClientQuotas; topic creation beyond a client's quota. Throttle times
are not compared, because they depend on the time between requests."""

from typing import Any

from ..scenario import scenario
from ..script import Script

Entity = dict[str, str | None]


def entry(entity: Entity, **quotas: float | None) -> dict[str, Any]:
    """Return an entry that sets quotas, and removes quotas that are None."""
    return {
        "entity": [{"entity_type": k, "entity_name": v} for k, v in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in quotas.items()
        ],
    }


async def alter(s: Script, *entries: dict[str, Any], validate_only: bool = False) -> None:
    for each in entries:
        values = {"entries": [each], "validate_only": validate_only}
        await s.send("AlterClientQuotas", 1, values)


async def describe(s: Script, *, strict: bool, **names: str | None) -> None:
    components = [
        {"entity_type": kind.replace("_", "-"), "match_type": int(name is None), "match": name}
        for kind, name in names.items()
    ]
    await s.broker.metadata_applied()
    await s.send("DescribeClientQuotas", 1, {"components": components, "strict": strict})


@scenario("quotas are set, described and removed by entity and key")
async def quotas_are_described(s: Script) -> None:
    user = {"user": s.group}
    await alter(
        s,
        entry(user, producer_byte_rate=1000.0, request_percentage=0.5),
        entry({**user, "client-id": "a"}, consumer_byte_rate=9.0000001),
        entry({**user, "client-id": None}, controller_mutation_rate=0.1),
    )
    await alter(s, entry(user, producer_byte_rate=1.0), validate_only=True)
    await describe(s, strict=True, user=s.group)
    await describe(s, strict=True, user=s.group, client_id="a")
    await describe(s, strict=False, user=s.group, client_id=None)
    await alter(s, entry(user, producer_byte_rate=None, consumer_byte_rate=None))
    await describe(s, strict=True, user=s.group)
    await alter(s, entry(user, request_percentage=None))
    await describe(s, strict=True, user=s.group)


@scenario("invalid entities, keys and values of quotas are rejected")
async def invalid_quotas_are_rejected(s: Script) -> None:
    user = {"user": s.group}
    await alter(
        s,
        *(entry(user, nonsense=1.0), entry({"user": ""}, producer_byte_rate=1.0)),
        *(entry({}, producer_byte_rate=1.0), entry({"nonsense": "a"}, producer_byte_rate=1.0)),
        *(entry(user, connection_creation_rate=1.0), entry({"ip": "::1"}, producer_byte_rate=1.0)),
        entry({**user, "ip": "::1"}, connection_creation_rate=1.0),
        *(entry(user, producer_byte_rate=value) for value in (-1.0, 1.5, 1e30, float("inf"))),
        *(entry({"ip": None}, connection_creation_rate=value) for value in (-1.0, 0.5, 1e10)),
        *(entry(user), entry(user, producer_byte_rate=None)),
    )
    await describe(s, strict=False, user=s.group)


@scenario(
    "topic creation beyond controller_mutation_rate is rejected; in old versions, the client is "
    "only throttled"
)
async def topics_beyond_the_quota(s: Script) -> None:
    for version in (5, 6):
        client_id = f"quota-{version}"
        await alter(s, entry({"client-id": client_id}, controller_mutation_rate=0.1))
        await s.broker.metadata_applied()
        topics = [
            {"name": f"{s.group}.{version}.{name}", "num_partitions": 3, "replication_factor": 1}
            for name in "ab"
        ]
        values = {"topics": topics, "timeout": 30_000, "validate_only": False}
        await s.send("CreateTopics", version, values, client_id=client_id)
        await alter(s, entry({"client-id": client_id}, controller_mutation_rate=None))
