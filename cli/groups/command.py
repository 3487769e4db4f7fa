"""The five actions: from the flags over the cluster to the answer (ConsumerGroupCommand)."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from . import arguments, client, plans, resetting, tables
from .cluster import Cluster, connected
from .errors import CommandError, Refusal, RefusedError, UsageError
from .output import Output
from .rows import (
    DeletedGroupRow,
    DeletedOffsetRow,
    Group,
    ListedRow,
    MemberRow,
    OffsetRow,
    Partition,
    StateRow,
    member_rows,
    offset_rows,
    state_row,
)

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
# What a DeleteOffsets answer says of the group, and what it says of some partitions.
GROUP_REFUSALS = {"INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", "GROUP_AUTHORIZATION_FAILED"}
GROUP_REFUSALS |= {"NON_EMPTY_GROUP"}
PARTITION_REFUSALS = {"GROUP_SUBSCRIBED_TO_TOPIC", "TOPIC_AUTHORIZATION_FAILED"}
PARTITION_REFUSALS |= {"UNKNOWN_TOPIC_OR_PARTITION"}


def run(args: argparse.Namespace) -> int:
    """The exit code."""
    output = Output(args.format)
    try:
        arguments.check(args)
        action = next(do for flag, do in ACTIONS.items() if getattr(args, flag))
        properties = client.arguments(Path(args.command_config)) if args.command_config else {}
        timeout_ms = arguments.number(args.timeout, "timeout")
        with connected(args.bootstrap_server, timeout_ms, properties) as cluster:
            action(args, cluster, output)
        output.end()
    except UsageError as error:
        print(f"{error}\nsee `kohort groups --help`", file=sys.stderr)
        return 1
    except CommandError as error:
        output.error(f"Executing consumer group command failed due to {error}")
    return output.exit_code()


def list_groups(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    output.begin(ListedRow)
    rows = cluster.list_groups(arguments.states(args.state), arguments.types(args.type))
    with_type, with_state = args.type is not None, args.state is not None
    output.show(rows, tables.listed(rows, with_type, with_state))


def describe(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    """Group by group, sorted; an unknown one fails all."""
    output.begin(MemberRow if args.members else OffsetRow if args.state is None else StateRow)
    groups = []
    for _, described in sorted(cluster.describe(chosen(args, cluster)).items()):
        if isinstance(described, Refusal):
            raise RefusedError(described)
        groups.append(described)
    for group in groups:
        if args.members:
            members = member_rows(group)
            _say_state(group, output)
            output.show(members, tables.members(members, args.verbose))
        elif args.state is not None:
            if _say_state(group, output):
                state = state_row(group, *cluster.coordinator(group.group))
                output.show([state], tables.state(state, args.verbose))
        else:
            offsets = _offsets(group, cluster)
            if _say_state(group, output) and offsets:
                output.show(offsets, tables.offsets(offsets, args.verbose))


def _offsets(group: Group, cluster: Cluster) -> list[OffsetRow]:
    committed = cluster.committed(group.group)
    shown = {*committed, *(at for member in group.members for at in member.partitions)}
    leaders, _ = cluster.leaders(at.topic for at in shown)
    return offset_rows(
        group, committed, cluster.ends(at for at in shown if leaders.get(at, -1) >= 0)
    )


def chosen(args: argparse.Namespace, cluster: Cluster) -> list[str]:
    """The groups of the flags."""
    if args.all_groups:
        return [row.group for row in cluster.list_groups([], [])]
    return list(dict.fromkeys(args.group))


def _say_state(group: Group, output: Output) -> bool:
    """Say what a reader of the group's table should know; whether there is such a group."""
    if group.state == "Dead":
        output.error(f"Consumer group '{group.group}' does not exist.")
    elif group.state == "Empty":
        output.notice(f"\nConsumer group '{group.group}' has no active members.")
    elif group.state in REBALANCING:
        output.notice(f"\nWarning: Consumer group '{group.group}' is rebalancing.")
    return group.state != "Dead"


def delete(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    output.begin(DeletedGroupRow)
    results = sorted(cluster.delete_groups(chosen(args, cluster)).items())
    deleted = ", ".join(f"'{group}'" for group, refused in results if refused is None)
    failed = [(group, refused) for group, refused in results if refused is not None]
    rows = [DeletedGroupRow(group, refused and str(refused)) for group, refused in results]
    if not failed:
        done = f"Deletion of requested consumer groups ({deleted}) was successful.\n"
        output.show(rows, done)
        return
    output.error("Deletion of some consumer groups failed:")
    said = [f"* Group '{group}' could not be deleted due to: {why}\n" for group, why in failed]
    if deleted:
        said.append(f"\nThese consumer groups were deleted successfully: {deleted}\n")
    output.show(rows, "".join(said))


def delete_offsets(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    output.begin(DeletedOffsetRow)
    if len(args.group) > 1:
        raise CommandError("Found multiple arguments for option group, but you asked for only one")
    (group,) = args.group
    whole = [topic for topic in args.topic if ":" not in topic]
    asked = [at for topic in args.topic if ":" in topic for at in plans.partitions_of(topic)]
    leaders, unknown = cluster.leaders(whole)
    asked += leaders
    results: dict[Partition, Refusal | None] = {}
    first: Refusal | None = None
    try:
        results = cluster.delete_offsets(group, asked)
        first = next((refused for refused in results.values() if refused is not None), None)
    except RefusedError as error:
        first = error.refusal
        results = dict.fromkeys(asked, first)
    rows = [DeletedOffsetRow(*at, refused and str(refused)) for at, refused in results.items()]
    rows += [DeletedOffsetRow(topic, None, str(refused)) for topic, refused in unknown.items()]
    # Kafka's order, which puts partition 10 before 2.
    rows.sort(key=lambda row: f"{row.topic}{-1 if row.partition is None else row.partition}")
    said = ""
    if first is None:
        said = f"Request succeeded for deleting offsets from group {group}.\n"
    elif first.name in GROUP_REFUSALS:
        output.error(first.message)
    elif first.name in PARTITION_REFUSALS:
        output.error("Encountered some partition-level error, see the follow-up details.")
    else:
        output.error(f"Encountered some unknown error: {first.name}")
    output.show(rows, said + tables.deleted_offsets(rows))


def reset_offsets(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    resetting.reset(chosen(args, cluster), args, cluster, output)


ACTIONS: dict[str, Callable[[argparse.Namespace, Cluster, Output], None]] = {
    "list": list_groups,
    "describe": describe,
    "delete": delete,
    "reset_offsets": reset_offsets,
    "delete_offsets": delete_offsets,
}
