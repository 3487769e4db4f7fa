"""The three requests about configurations, asked of a broker without a socket."""

from typing import Any

from support.broker import World

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def world_with_orders() -> World:
    world = World({"log.retention.hours": "1", "message.max.bytes": "5000"})
    world.make("orders", retention_ms="77")
    return world


def describe(
    world: World,
    kind: int,
    name: str,
    *keys: str,
    version: int = 4,
    documentation: bool = False,
    synonyms: bool = True,
) -> Any:
    resource = world.part(
        "DescribeConfigs",
        version,
        "DescribeConfigsResource",
        resource_type=kind,
        resource_name=name,
        configuration_keys=keys or None,
    )
    extra = {"include_documentation": documentation} if version >= 3 else {}
    answer = world.ask(
        "DescribeConfigs", version, resources=(resource,), include_synonyms=synonyms, **extra
    )
    return answer.results[0]


def shown(result: Any) -> dict[str, Any]:
    return {each.name: each for each in result.configs}


def incremental(
    world: World, kind: int, name: str, *changes: tuple[str, int, str | None], **how: Any
) -> Any:
    version = how.pop("version", 1)
    part = world.part
    configs = tuple(
        part(
            "IncrementalAlterConfigs",
            version,
            "AlterableConfig",
            name=key,
            config_operation=operation,
            value=value,
        )
        for key, operation, value in changes
    )
    resource = part(
        "IncrementalAlterConfigs",
        version,
        "AlterConfigsResource",
        resource_type=kind,
        resource_name=name,
        configs=configs,
    )
    answer = world.ask(
        "IncrementalAlterConfigs",
        version,
        resources=(resource,) * how.pop("times", 1),
        validate_only=how.pop("validate_only", False),
    )
    return answer.responses[0]


def replace(
    world: World, kind: int, name: str, *configs: tuple[str, str | None], version: int = 2
) -> Any:
    alterable = tuple(
        world.part("AlterConfigs", version, "AlterableConfig", name=key, value=value)
        for key, value in configs
    )
    resource = world.part(
        "AlterConfigs",
        version,
        "AlterConfigsResource",
        resource_type=kind,
        resource_name=name,
        configs=alterable,
    )
    answer = world.ask("AlterConfigs", version, resources=(resource,), validate_only=False)
    return answer.responses[0]
