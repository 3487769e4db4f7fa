"""Configurations of groups: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and
ListConfigResources of resource type GROUP."""

from collections.abc import Sequence
from functools import partial

from ..broker import BROKER, GROUP
from ..recorder import WITHIN
from ..scenario import scenario
from ..script import APPEND, DELETE, SET, SUBTRACT, Change, Script, altered

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


async def describe(
    s: Script, *keys: str, name: str | None = None, kind: int = GROUP, version: int = 4
) -> None:
    """Describe the given keys of the script's group, or all. The documentation, which kohort words
    differently, is omitted."""
    await applied(s)
    name = s.group if name is None else name
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    values = {"resources": (resource,), "include_synonyms": True, "include_documentation": False}
    await s.send("DescribeConfigs", version, values)


async def change(
    s: Script,
    *changes: Change,
    name: str | None = None,
    validate_only: bool = False,
    version: int = 1,
) -> None:
    name = s.group if name is None else name
    values = {"resources": (altered(GROUP, name, *changes),), "validate_only": validate_only}
    await s.send("IncrementalAlterConfigs", version, values)


async def replace(
    s: Script,
    *configs: tuple[str, str | None],
    name: str | None = None,
    validate_only: bool = False,
    version: int = 2,
) -> None:
    name = s.group if name is None else name
    parts = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": GROUP, "resource_name": name, "configs": parts}
    await s.send(
        "AlterConfigs", version, {"resources": (resource,), "validate_only": validate_only}
    )


async def listed(s: Script, *types: int, version: int = 1) -> None:
    await applied(s)
    await s.send("ListConfigResources", version, {"resource_types": types})


async def applied(s: Script) -> None:
    """Wait until the broker has applied all changes so far; Kafka applies a change after the
    response. Changes are applied in order, so it is enough to wait for an unrecorded change of
    another group."""
    marker, text = f"marker of {s.group}", str(1_000 + len(s.steps))
    changed = altered(GROUP, marker, (ASSIGNMENT, SET, text))
    await s.call("IncrementalAlterConfigs", 1, resources=[changed], validate_only=False)
    described = {"resource_type": GROUP, "resource_name": marker}
    described["configuration_keys"] = [ASSIGNMENT]
    await s.until(
        partial(s.call, "DescribeConfigs", 4, resources=[described]),
        lambda found: found["results"][0]["configs"][0]["value"] == text,
        f"a change is not applied {WITHIN}",
    )


async def try_values(s: Script, key: str, texts: Sequence[str | None]) -> None:
    for text in texts:
        await change(s, (key, SET, text))
    await describe(s, key)


@scenario("DescribeConfigs: all keys of a group that does not exist have the broker's defaults")
async def a_group_without_configs_is_described(s: Script) -> None:
    for version in range(1, 5):
        await describe(s, version=version)


@scenario("DescribeConfigs: requested keys; unknown keys are omitted; an empty name is an error")
async def some_keys_of_a_group_are_described(s: Script) -> None:
    await describe(s, SESSION, "nope", SESSION)
    await describe(s, "nope")
    await describe(s, name="")
    resource = {"resource_type": GROUP, "resource_name": s.group, "configuration_keys": ()}
    values = {"resources": (resource, resource), "include_synonyms": False}
    await s.send("DescribeConfigs", 4, values)


@scenario("IncrementalAlterConfigs: values and their sources, for a group that does not exist")
async def a_group_is_configured(s: Script) -> None:
    await change(s, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"), (ASSIGNMENT, SET, "0"))
    await describe(s)
    await change(s, (SESSION, SET, "51000"))
    await describe(s, SESSION, HEARTBEAT)
    await change(s, version=0)
    await describe(s, SESSION, version=1)


@scenario("IncrementalAlterConfigs: a deleted key has the default again; unknown keys are ignored")
async def keys_of_a_group_are_deleted(s: Script) -> None:
    await change(s, (SESSION, DELETE, None), ("nope", DELETE, None))
    await change(s, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    await change(s, (SESSION, DELETE, "ignored"), ("nope", DELETE, None))
    await describe(s, SESSION, HEARTBEAT)
    await change(s, (HEARTBEAT, DELETE, None))
    await describe(s, SESSION, HEARTBEAT)
    await listed(s, GROUP)


@scenario("IncrementalAlterConfigs: validate_only changes nothing, and returns the same errors")
async def configs_of_a_group_are_only_validated(s: Script) -> None:
    await change(s, (SESSION, SET, "50000"), validate_only=True)
    await change(s, (SESSION, SET, "1"), validate_only=True)
    await change(s, (SESSION, SET, "1"), name="", validate_only=True)
    await describe(s, SESSION)
    await change(s, (SESSION, SET, "50000"))
    await change(s, (SESSION, DELETE, None), validate_only=True)
    await replace(s, validate_only=True)
    await replace(s, (SESSION, "51000"), validate_only=True)
    await describe(s, SESSION)


@scenario("IncrementalAlterConfigs: consumer.session.timeout.ms has the broker's bounds")
async def the_session_timeout_of_a_group_is_bounded(s: Script) -> None:
    texts = (
        "44999",
        "60001",
        "60000",
        "45000",
        "0",
        "-1",
        "x",
        "",
        "2147483648",
        " 50001 ",
        "+46000",
    )
    await try_values(s, SESSION, texts)


@scenario("IncrementalAlterConfigs: consumer.heartbeat.interval.ms has the broker's bounds")
async def the_heartbeat_interval_of_a_group_is_bounded(s: Script) -> None:
    await try_values(s, HEARTBEAT, ("4999", "15001", "5000", "15000", "0", "1.5", "007000"))


@scenario("IncrementalAlterConfigs: consumer.assignment.interval.ms has the broker's bounds")
async def the_assignment_interval_of_a_group_is_bounded(s: Script) -> None:
    await try_values(s, ASSIGNMENT, ("-1", "15001", "0", "15000", "1s"))


@scenario(
    "The session timeout must be greater than the heartbeat interval, also by default",
    settings="configs",
)
async def the_session_timeout_is_above_the_heartbeat_interval(s: Script) -> None:
    await change(s, (SESSION, SET, "5000"))
    await change(s, (SESSION, SET, "4999"), (HEARTBEAT, SET, "5000"))
    await change(s, (SESSION, SET, "5001"), (HEARTBEAT, SET, "5000"))
    await change(s, (HEARTBEAT, SET, "5001"))
    await change(s, (HEARTBEAT, SET, "100"), (SESSION, SET, "101"))
    await change(s, (HEARTBEAT, DELETE, None))
    await describe(s, SESSION, HEARTBEAT)


@scenario(
    "Values in server.properties are defaults of groups; a group's own values override them",
    settings="configs",
)
async def defaults_of_groups_are_static_values_of_the_broker(s: Script) -> None:
    await describe(s)
    await change(s, (ASSIGNMENT, SET, "10"), (HEARTBEAT, SET, "100"))
    await change(s, (HEARTBEAT, SET, "99"))
    await change(s, (SESSION, SET, "499"))
    await describe(s, ASSIGNMENT, HEARTBEAT, SESSION)


@scenario("Only lists can be appended to; an unknown key is not a list")
async def keys_of_a_group_are_not_lists(s: Script) -> None:
    for operation in (APPEND, SUBTRACT):
        await change(s, (SESSION, operation, "1"))
        await change(s, ("nope", operation, "1"))
        await change(s, (SESSION, operation, "1"), name="")
        await change(s, (SESSION, operation, None))


@scenario("Unknown keys, null, and keys and resources that appear twice")
async def invalid_changes_of_a_group_are_rejected(s: Script) -> None:
    await change(s, ("nope", SET, "1"))
    await change(s, (SESSION, SET, "1"), ("nope", SET, "1"))
    await change(s, ("group.consumer.session.timeout.ms", SET, "50000"))
    await change(s, ("consumer.assignor.offload.enable", SET, "true"))
    await change(s, (SESSION, SET, None))
    await change(s, (SESSION, SET, None), (HEARTBEAT, SET, None))
    await change(s, (SESSION, SET, "50000"), (SESSION, DELETE, None))
    group, other = (
        altered(GROUP, n, (SESSION, SET, "50000")) for n in (s.group, f"{s.group}/other")
    )
    await s.send("IncrementalAlterConfigs", 1, {"resources": (group, group, other)})
    await describe(s)


@scenario("Of several invalid values, the first in the order of Kafka's declarations is reported")
async def the_first_error_of_a_group_is_returned(s: Script) -> None:
    await change(s, (HEARTBEAT, SET, "1"), (SESSION, SET, "1"), (ASSIGNMENT, SET, "-5"))
    await change(s, ("share.auto.offset.reset", SET, "x"), (HEARTBEAT, SET, "abc"))
    await change(s, (ASSIGNMENT, SET, "x"), (HEARTBEAT, SET, "x"), (SESSION, SET, "x"))
    await change(s, (ASSIGNMENT, SET, "15001"), (HEARTBEAT, SET, "1"), (SESSION, SET, "1"))
    await change(s, (ASSIGNMENT, SET, "15001"), (SESSION, SET, "1"))
    await change(s, ("share.session.timeout.ms", SET, "1"), (ASSIGNMENT, SET, "15001"))
    await change(
        s, ("streams.session.timeout.ms", SET, "1"), ("share.session.timeout.ms", SET, "1")
    )


@scenario("A group with an empty name cannot be configured")
async def the_empty_group_is_not_configured(s: Script) -> None:
    await change(s, name="")
    await change(s, (SESSION, SET, "50000"), name="")
    await change(s, ("nope", SET, "1"), name="")
    await change(s, (SESSION, DELETE, None), name="")
    await change(s, (SESSION, SET, None), name="")
    await replace(s, name="")
    await replace(s, (SESSION, None), name="")
    await replace(s, ("nope", "1"), name="")


@scenario("AlterConfigs: replaces all configurations of a group")
async def configs_of_a_group_are_replaced(s: Script) -> None:
    await change(s, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    await replace(s, (SESSION, "51000"))
    await describe(s, SESSION, HEARTBEAT)
    await replace(s, (SESSION, "1"))
    await replace(s, ("nope", "1"))
    await replace(s, (SESSION, None))
    await replace(s, (SESSION, "50000"), (SESSION, "50000"))
    for version in range(3):
        await replace(s, (SESSION, str(52_000 + version)), version=version)
        await describe(s, SESSION)
    await replace(s)
    await describe(s, SESSION)
    await listed(s, GROUP)


@scenario("ListConfigResources: groups with configurations, in every version")
async def groups_with_configs_are_listed(s: Script) -> None:
    await s.stable("A")
    await listed(s, GROUP)
    await change(s, (SESSION, SET, "50000"))
    await change(s, (SESSION, SET, "50000"), name=f"{s.group}/b ü")
    await change(s, (SESSION, SET, "1"), name=f"{s.group}/invalid")
    for version in (0, 1):
        for types in ((), (GROUP,), (GROUP, GROUP), (16,), (33,), (GROUP, 0)):
            await listed(s, *types, version=version)
    await change(s, (SESSION, DELETE, None))
    await listed(s, GROUP)


@scenario("The configurations of a group outlive the group")
async def configs_of_a_deleted_group_are_kept(s: Script) -> None:
    await s.member("A").commit(1)
    await change(s, (SESSION, SET, "50000"))
    await s.delete()
    await describe(s, SESSION)
    await listed(s, GROUP)


@scenario("Group ids of all kinds can be configured")
async def any_group_id_is_configured(s: Script) -> None:
    for name in (f"{s.group}/ü 中", f"{s.group}{'x' * 100}", f"{s.group}.", f"{s.group}\n"):
        await change(s, (SESSION, SET, "50000"), name=name)
        await describe(s, SESSION, name=name)


@scenario("Keys of share groups: values, bounds, formats")
async def keys_of_share_groups_are_validated(s: Script) -> None:
    for key, texts in {
        "share.session.timeout.ms": ("44999", "60001", "50000"),
        "share.heartbeat.interval.ms": ("4999", "15001", "6000"),
        "share.record.lock.duration.ms": ("999", "14999", "60001", "15000"),
        "share.delivery.count.limit": ("1", "11", "10"),
        "share.partition.max.record.locks": ("99", "4001", "100"),
        "share.assignment.interval.ms": ("-1", "15001", "5"),
        "share.isolation.level": ("nope", "READ_COMMITTED", "read_committed"),
        "share.renew.acknowledge.enable": ("nope", "FALSE"),
    }.items():
        await try_values(s, key, texts)


@scenario("share.auto.offset.reset: earliest, latest, or a duration that is not negative")
async def the_offset_reset_of_a_share_group_is_validated(s: Script) -> None:
    texts = ("nope", "EARLIEST", "", "by_duration", "earliest", " latest ", "BY_DURATION:PT1H")
    durations = (
        "PT1H",
        "P1DT1.5S",
        "pt1s",
        "PT0S",
        "PT",
        "P",
        "P1DT",
        "x",
        "-PT1H",
        "P-1D",
        "PT-1H2H",
        "PT-6H+3M",
        "PT-1H+61M",
        "-PT-1H",
        "PT1.S",
        "PT.5S",
        "PT1,5S",
        "PT-0.5S",
        "PT1.0123456789S",
        "PT9223372036854775807S",
        "PT9223372036854775808S",
        "P106751991167300D",
        "P106751991167301D",
        "P99999999999999999999D",
        "P1Y",
        "P1W",
        "P1DT2H3M4S",
    )
    await try_values(s, "share.auto.offset.reset", texts)
    await try_values(s, "share.auto.offset.reset", [f"by_duration:{d}" for d in durations])


@scenario("Keys of streams groups: values and bounds")
async def keys_of_streams_groups_are_validated(s: Script) -> None:
    for key, texts in {
        "streams.session.timeout.ms": ("44999", "60001", "50000"),
        "streams.heartbeat.interval.ms": ("4999", "15001", "6000"),
        "streams.num.standby.replicas": ("-1", "3", "2"),
        "streams.initial.rebalance.delay.ms": ("-1", "0"),
        "streams.assignment.interval.ms": ("-1", "15001", "5"),
    }.items():
        await try_values(s, key, texts)
    await describe(s)


@scenario("Only group.consumer.assignment.interval.ms can be changed while the broker runs")
async def keys_of_consumer_groups_of_the_broker_are_read_only(s: Script) -> None:
    for key, text in (
        ("group.consumer.session.timeout.ms", "50000"),
        ("group.consumer.assignors", "range"),
        ("group.consumer.regex.refresh.interval.ms", "50000"),
        ("group.consumer.assignment.interval.ms", "-1"),
        ("group.consumer.assignment.interval.ms", "15001"),
    ):
        values = {"resources": (altered(BROKER, "1", (key, SET, text)),), "validate_only": True}
        await s.send("IncrementalAlterConfigs", 1, values)


@scenario("DescribeConfigs: the broker's keys of consumer groups; internal keys are omitted")
async def keys_of_consumer_groups_of_the_broker_are_described(s: Script) -> None:
    names = [
        f"group.consumer.{bound}{name}"
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
        for bound in ("", "min.", "max.")
    ]
    others = ("max.size", "assignors", "migration.policy", "regex.refresh.interval.ms")
    names += [f"group.consumer.{name}" for name in others]
    names += ["group.coordinator.rebalance.protocols", "group.consumer.assignor.offload.enable"]
    await describe(s, *names, name="1", kind=BROKER)
