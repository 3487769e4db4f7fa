"""The actions of ConsumerGroupCommand, except --reset-offsets."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...printable import printable
from . import arguments, reset_offsets, tables
from .cluster import Cluster, Group, Partition, client_arguments, connected
from .errors import BrokerError, CommandError, NotConnected, RequestFailed, UsageError
from .reset_offsets import selected_groups
from .tables import Output

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
# Errors in an OffsetDelete response: for the group, and for single partitions.
GROUP_ERRORS: Final = {
    "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", "GROUP_AUTHORIZATION_FAILED", "NON_EMPTY_GROUP",
}  # fmt: skip
PARTITION_ERRORS: Final = {
    "GROUP_SUBSCRIBED_TO_TOPIC", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION",
}  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the action. As in Kafka's tool, return 1 for invalid flags and 0 otherwise, even if the
    cluster returns an error. Unlike in Kafka's tool, return 1 without a connection to the cluster
    and, with --format json or csv, for every failure."""
    output = Output(args.format)
    try:
        arguments.check(args)
        action = next(action for flag, action in ACTIONS.items() if getattr(args, flag))
        config = client_arguments(Path(args.command_config)) if args.command_config else {}
        timeout_ms = arguments.integer(args.timeout, "timeout")
        with connected(args.bootstrap_server, timeout_ms, config) as cluster:
            action(args, cluster, output)
        output.end()
    except UsageError as error:
        print(f"{error}\nsee `kohort groups --help`", file=sys.stderr)
        return 1
    except CommandError as error:
        output.error(f"Executing consumer group command failed due to {error}")
        if isinstance(error, NotConnected):
            return 1
    return output.exit_code()


def list_groups(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    output.begin(tables.ListedRow)
    states = arguments.names(args.state, arguments.STATES, "state")
    types = arguments.names(args.type, arguments.TYPES, "types")
    rows = [tables.ListedRow(*group) for group in cluster.list_groups(states, types)]
    with_type, with_state = args.type is not None, args.state is not None
    output.show(rows, tables.list_table(rows, with_type=with_type, with_state=with_state))


def describe(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    """Print groups sorted by name. An error of one group fails the whole command."""
    other = tables.OffsetRow if args.state is None else tables.StateRow
    output.begin(tables.MemberRow if args.members else other)
    groups = []
    for _, described in sorted(cluster.describe(selected_groups(args, cluster)).items()):
        if isinstance(described, BrokerError):
            raise RequestFailed(described)
        groups.append(described)
    for group in groups:
        if args.members:
            members = tables.member_rows(group)
            _print_state(group, output)
            output.show(members, tables.member_table(members, verbose=args.verbose))
        elif args.state is not None:
            if _print_state(group, output):
                state = tables.state_row(group, *cluster.coordinator(group.group))
                output.show([state], tables.state_table(state, verbose=args.verbose))
        else:
            offsets = _offsets(group, cluster)
            if _print_state(group, output) and offsets:
                output.show(offsets, tables.offset_table(offsets, verbose=args.verbose))


def _offsets(group: Group, cluster: Cluster) -> list[tables.OffsetRow]:
    committed = cluster.committed(group.group)
    partitions = {*committed, *(at for member in group.members for at in member.partitions)}
    leaders, _ = cluster.leaders(at.topic for at in partitions)
    end_offsets = cluster.end_offsets(at for at in partitions if leaders.get(at, -1) >= 0)
    return tables.offset_rows(group, committed, end_offsets)


def _print_state(group: Group, output: Output) -> bool:
    """Print Kafka's message about the group's state. Return False if the group is dead."""
    if group.state == "Dead":
        output.error(f"Consumer group '{group.group}' does not exist.")
    elif group.state == "Empty":
        output.notice(f"\nConsumer group '{group.group}' has no active members.")
    elif group.state in REBALANCING:
        output.notice(f"\nWarning: Consumer group '{group.group}' is rebalancing.")
    return group.state != "Dead"


def delete(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    output.begin(tables.DeletedGroupRow)
    results = sorted(cluster.delete_groups(selected_groups(args, cluster)).items())
    deleted = ", ".join(f"'{printable(group)}'" for group, error in results if error is None)
    failed = [(group, error) for group, error in results if error is not None]
    rows = [tables.DeletedGroupRow(group, error and str(error)) for group, error in results]
    text = f"Deletion of requested consumer groups ({deleted}) was successful.\n"
    if failed:
        output.error("Deletion of some consumer groups failed:")
        text = "".join(
            f"* Group '{printable(group)}' could not be deleted due to: {printable(str(error))}\n"
            for group, error in failed
        )
        if deleted:
            text += f"\nThese consumer groups were deleted successfully: {deleted}\n"
    output.show(rows, text)


def delete_offsets(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    output.begin(tables.DeletedOffsetRow)
    if len(args.group) > 1:
        raise CommandError("Found multiple arguments for option group, but you asked for only one")
    (group,) = args.group
    with_partitions = [topic for topic in args.topic if ":" in topic]
    partitions = [at for topic in with_partitions for at in reset_offsets.partitions_of(topic)]
    leaders, unknown = cluster.leaders(topic for topic in args.topic if ":" not in topic)
    partitions += leaders
    results: dict[Partition, BrokerError | None]
    try:
        results = cluster.delete_offsets(group, partitions)
        first = next((error for error in results.values() if error is not None), None)
    except RequestFailed as failed:
        first = failed.error
        results = dict.fromkeys(partitions, first)
    rows = [tables.DeletedOffsetRow(*at, error and str(error)) for at, error in results.items()]
    rows += [tables.DeletedOffsetRow(topic, None, str(error)) for topic, error in unknown.items()]
    # In Kafka's order, partition 10 is before partition 2.
    rows.sort(key=lambda row: f"{row.topic}{-1 if row.partition is None else row.partition}")
    text = ""
    if first is None:
        text = f"Request succeeded for deleting offsets from group {printable(group)}.\n"
    elif first.name in GROUP_ERRORS:
        output.error(first.message)
    elif first.name in PARTITION_ERRORS:
        output.error("Encountered some partition-level error, see the follow-up details.")
    else:
        output.error(f"Encountered some unknown error: {first.name}")
    output.show(rows, text + tables.deleted_offsets_table(rows))


ACTIONS: Final[dict[str, Callable[[argparse.Namespace, Cluster, Output], None]]] = {
    "list": list_groups,
    "describe": describe,
    "delete": delete,
    "reset_offsets": reset_offsets.reset,
    "delete_offsets": delete_offsets,
}
