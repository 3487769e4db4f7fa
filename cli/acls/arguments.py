"""The flags of kafka-acls, their allowed combinations, and the ACLs that they describe.

Imported for every `kohort --help`: must not import anything slow. Upstream: AclCommandOptions.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ...topics.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ..groups.errors import CommandError, UsageError

HELP: Final = """\
List, add and remove ACLs in any Kafka cluster with an authorizer.

Flags, output and exit codes match those of kafka-acls in Kafka 4.3."""

PATTERN_TYPES: Final = tuple(each.name for each in PatternType if each is not PatternType.UNKNOWN)
RESOURCES: Final = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user_principal": AclResourceType.USER,
}
PRODUCER: Final = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    AclResourceType.CLUSTER: (AclOperation.IDEMPOTENT_WRITE,),
}
CONSUMER: Final = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


class Pattern(NamedTuple):
    """The pattern of an ACL, or of a filter."""

    type: AclResourceType
    name: str | None
    pattern_type: PatternType

    def __str__(self) -> str:
        name = "<any>" if self.name is None else self.name
        return (
            f"ResourcePattern(resourceType={self.type.name}, name={name}, "
            f"patternType={self.pattern_type.name})"
        )


class Entry(NamedTuple):
    """The entry of an ACL: what it allows or denies, and to whom."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


CLUSTER: Final = Pattern(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(module="acls.command")
    add = parser.add_argument
    repeatable: dict[str, Any] = {"action": "append", "default": []}
    add("--bootstrap-server", metavar="H:P", help="one or more brokers, separated by commas")
    add("--command-config", metavar="FILE", help="a properties file for Java clients")
    add("--force", action="store_true", help="do not ask before removing ACLs")
    action = parser.add_argument_group("actions, one of").add_argument
    action("--list", action="store_true", help="list the ACLs of the resources, or all ACLs")
    action("--add", action="store_true")
    action("--remove", action="store_true")
    which = parser.add_argument_group("resources, repeatable").add_argument
    for flag in RESOURCES:
        which(f"--{flag.replace('_', '-')}", metavar="NAME", **repeatable)
    which("--cluster", action="store_true")
    text = "literal (default) or prefixed; with --list and --remove, also any, or match (all "
    text += "patterns that apply to the name)"
    which("--resource-pattern-type", metavar="TYPE", default="LITERAL", help=text)
    entry = parser.add_argument_group("permissions, repeatable").add_argument
    entry("--allow-principal", metavar="User:NAME", **repeatable, help="User:* for everyone")
    entry("--deny-principal", metavar="User:NAME", **repeatable)
    entry("--allow-host", metavar="IP", **repeatable, help="(default: *)")
    entry("--deny-host", metavar="IP", **repeatable, help="(default: *)")
    text = "Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, "
    text += "AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens, TwoPhaseCommit or All "
    text += "(default)"
    entry("--operation", metavar="NAME", **repeatable, help=text)
    text = "the operations that a producer needs, for --topic"
    entry("--producer", action="store_true", help=text)
    entry("--idempotent", action="store_true", help="with --producer: also IdempotentWrite")
    text = "the operations that a consumer needs, for --topic and --group"
    entry("--consumer", action="store_true", help=text)
    text = "with --list: only ACLs of this principal; repeatable"
    parser.add_argument("--principal", metavar="User:NAME", **repeatable, help=text)


def check(args: argparse.Namespace) -> None:
    """Raise UsageError with Kafka's message. The checks are in the order of Kafka's tool."""
    if not args.bootstrap_server:
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum((args.list, args.add, args.remove)) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    permissions = ("allow-host", "allow-principal", "deny-host", "deny-principal")
    _not_together(args, "list", ("producer", "consumer", *permissions))
    for role in ("producer", "consumer"):
        _not_together(args, role, ("operation", "deny-principal", "deny-host"))
    if args.principal and not args.list:
        raise UsageError("The --principal option is only available if --list is set")
    if args.producer and not args.topic:
        raise UsageError("With --producer you must specify a --topic")
    if args.idempotent and not args.producer:
        raise UsageError("The --idempotent option is only available if --producer is set")
    has_other = not args.producer and (args.cluster or args.transactional_id)
    if args.consumer and (not args.topic or not args.group or has_other):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def _not_together(args: argparse.Namespace, flag: str, others: Iterable[str]) -> None:
    for other in others:
        if getattr(args, flag) and getattr(args, other.replace("-", "_")):
            raise UsageError(f'Option "[{flag}]" can\'t be used with option "[{other}]"')


def patterns(args: argparse.Namespace, *, are_required: bool) -> list[Pattern]:
    """Return the patterns of the resources that the flags name. Raises UsageError."""
    pattern_type = _pattern_type(args)
    found = [
        Pattern(type_, name if flag == "transactional_id" else name.strip(), pattern_type)
        for flag, type_ in RESOURCES.items()
        for name in getattr(args, flag)
    ]
    if args.idempotent or (args.cluster and pattern_type is PatternType.LITERAL):
        found.append(CLUSTER)
    if are_required and not found:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group "
            "<group> or --delegation-token <Delegation Token ID>"
        )
    return list(dict.fromkeys(found))


def _pattern_type(args: argparse.Namespace) -> PatternType:
    name = args.resource_pattern_type.upper()
    if name not in PATTERN_TYPES:
        raise UsageError(
            f"Cannot parse argument '{args.resource_pattern_type}' of option "
            f"resource-pattern-type: expected one of {', '.join(PATTERN_TYPES)}"
        )
    pattern_type = PatternType[name]
    if args.add and pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(
            f"A '--resource-pattern-type' value of '{name}' is not valid when adding acls."
        )
    return pattern_type


def entries(args: argparse.Namespace) -> dict[Pattern, list[Entry]]:
    """Return the entries that are added or removed, for each pattern. Raises UsageError and
    CommandError."""
    found: dict[Pattern, dict[Entry, None]] = {}
    roles = [role for name, role in _ROLES.items() if getattr(args, name)]
    for pattern in patterns(args, are_required=True):
        operations = [role[pattern.type] for role in roles if pattern.type in role]
        if pattern.type is AclResourceType.CLUSTER and not args.idempotent and roles:
            continue
        if not roles:
            operations = [tuple(map(_operation, args.operation or ["All"]))]
        for each in operations:
            found.setdefault(pattern, {}).update(dict.fromkeys(_entries(args, each)))
    for pattern, listed in found.items():
        supported = (*SUPPORTED_OPERATIONS[pattern.type], AclOperation.ALL)
        if any(entry.operation not in supported for entry in listed):
            names = ", ".join(each.name for each in supported)
            raise UsageError(f"ResourceType {pattern.type.name} only supports operations [{names}]")
    if args.add and not all(found.values()):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    return {pattern: list(listed) for pattern, listed in found.items()}


_ROLES: Final = {"producer": PRODUCER, "consumer": CONSUMER}


def _entries(args: argparse.Namespace, operations: Sequence[AclOperation]) -> Iterable[Entry]:
    for flag, permission in (("allow", AclPermission.ALLOW), ("deny", AclPermission.DENY)):
        hosts = getattr(args, f"{flag}_host") or [WILDCARD]
        for principal in principals(getattr(args, f"{flag}_principal")):
            for operation in operations:
                for host in hosts:
                    yield Entry(principal, host.strip(), operation, permission)


def principals(names: Iterable[str]) -> list[str]:
    """Return the names without duplicates. Raises CommandError for a name without a type."""
    found = [name.strip() for name in names]
    for name in found:
        if ":" not in name:
            raise CommandError(
                f"expected a string in format principalType:principalName but got {name}"
            )
    return list(dict.fromkeys(found))


def _operation(name: str) -> AclOperation:
    """Return the operation of a name such as `ClusterAction`. Raises CommandError."""
    by_name = {each.name.replace("_", ""): each for each in AclOperation}
    operation = by_name.get(name.strip().upper(), AclOperation.UNKNOWN)
    if operation is AclOperation.ANY:
        raise CommandError("operation must not be ANY")
    return operation
