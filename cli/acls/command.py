"""The actions of AclCommand. Lists are sorted; those of Kafka's tool have no order."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from kafka import admin as kafka_admin
from kafka import errors as kafka_errors

from ...printable import printable
from ...topics.acls import AclOperation, AclPermission, AclResourceType, PatternType
from ..groups.cluster import admin_client, client_arguments
from ..groups.errors import CommandError, RequestFailed, UsageError, broker_error
from . import arguments
from .arguments import Entry, Pattern

# How long to wait for a broker and for each response.
TIMEOUT_MS: Final = 30_000

_types: Any = kafka_admin  # has no annotations

EVERYTHING: Final = Pattern(AclResourceType.ANY, None, PatternType.ANY)


def run(args: argparse.Namespace) -> int:
    """Run the action and return the exit code."""
    try:
        arguments.check(args)
        action = next(each for name, each in ACTIONS.items() if getattr(args, name))
        config = client_arguments(Path(args.command_config)) if args.command_config else {}
        # Before a connection is made: invalid flags are found without a cluster.
        planned = None if args.list else arguments.entries(args)
        with admin_client(args.bootstrap_server, TIMEOUT_MS, config) as admin:
            action(args, Cluster(admin), planned or {})
    except UsageError as error:
        print(f"{error}\nsee `kohort acls --help`", file=sys.stderr)
        return 1
    except CommandError as error:
        print(f"Error while executing ACL command: {printable(str(error))}")
        return 1
    return 0


class Cluster:
    """The ACLs of a cluster. All methods raise CommandError."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def describe(self, pattern: Pattern) -> dict[Pattern, list[Entry]]:
        try:
            acls, error = self._admin.describe_acls(_filter(pattern, None))
        except kafka_errors.KafkaError as failure:
            raise _failed(failure) from failure
        if error is not kafka_errors.NoError:
            raise _failed(error)
        found: dict[Pattern, list[Entry]] = {}
        for acl in acls:
            found.setdefault(_pattern(acl), []).append(_entry(acl))
        return found

    def create(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        resource = _types.ResourcePattern(*_resource(pattern))
        acls = [_types.ACL(*_values(entry), resource) for entry in entries]
        try:
            failed = self._admin.create_acls(acls)["failed"]
        except kafka_errors.KafkaError as failure:
            raise _failed(failure) from failure
        if failed:
            raise _failed(failed[0])

    def delete(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Delete the ACLs of the pattern with these entries, all if there are none."""
        filters = [_filter(pattern, entry) for entry in entries] or [_filter(pattern, None)]
        try:
            results = self._admin.delete_acls(filters)
        except kafka_errors.KafkaError as failure:
            raise _failed(failure) from failure
        for _, _, error in results:
            if error is not kafka_errors.NoError:
                raise _failed(error)


def _resource(pattern: Pattern) -> tuple[Any, str | None, Any]:
    pattern_type = _types.ACLResourcePatternType(pattern.pattern_type)
    return _types.ResourceType(pattern.type), pattern.name, pattern_type


def _values(entry: Entry) -> tuple[str, str, Any, Any]:
    operation, permission = entry.operation, entry.permission
    if operation is AclOperation.TWO_PHASE_COMMIT:
        raise CommandError(f"{operation.name} is not supported by kafka-python")
    kafka_operation = _types.ACLOperation(operation)
    return entry.principal, entry.host, kafka_operation, _types.ACLPermissionType(permission)


def _filter(pattern: Pattern, entry: Entry | None) -> Any:
    everything = None, None, _types.ACLOperation.ANY, _types.ACLPermissionType.ANY
    values = everything if entry is None else _values(entry)
    return _types.ACLFilter(*values, _types.ResourcePatternFilter(*_resource(pattern)))


def _pattern(acl: Any) -> Pattern:
    resource = acl.resource_pattern
    return Pattern(
        AclResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
    )


def _entry(acl: Any) -> Entry:
    operation, permission = AclOperation(acl.operation), AclPermission(acl.permission_type)
    return Entry(acl.principal, acl.host, operation, permission)


def _failed(error: Any) -> RequestFailed:
    """The failure of an error of kafka-python, or of its class."""
    return RequestFailed(broker_error(error.errno, error.message, error.description))


# --- actions


Planned: TypeAlias = Mapping[Pattern, list[Entry]]


def add(_args: argparse.Namespace, cluster: Cluster, planned: Planned) -> None:
    for pattern, entries in planned.items():
        existing = cluster.describe(pattern).get(pattern, [])
        new = [entry for entry in entries if entry not in existing]
        for entry in entries:
            if entry in existing:
                _print(f"Acl (pattern={pattern}, entry={entry}) already exists.")
        if new:
            _print(f"Adding ACLs for resource `{pattern}`: \n {_lines(new)}\n")
            cluster.create(pattern, new)


def remove(args: argparse.Namespace, cluster: Cluster, planned: Planned) -> None:
    for pattern, entries in planned.items():
        what = f"remove ACLs: \n {_lines(entries)}\n from" if entries else "delete all ACLs for"
        question = f"Are you sure you want to {what} resource filter `{pattern}`? (y/n)"
        if args.force or _confirms(question):
            cluster.delete(pattern, entries)


def _confirms(question: str) -> bool:
    _print(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "y"


def list_acls(args: argparse.Namespace, cluster: Cluster, _planned: Planned) -> None:
    found: dict[Pattern, list[Entry]] = {}
    for pattern in arguments.patterns(args, are_required=False) or [EVERYTHING]:
        found |= cluster.describe(pattern)
    if not args.principal:
        _print_acls(found)
    for principal in arguments.principals(args.principal):
        _print(f"ACLs for principal `{principal}`")
        of_principal = {
            pattern: own
            for pattern, entries in found.items()
            if (own := [entry for entry in entries if entry.principal == principal])
        }
        _print_acls(of_principal)


def _print_acls(found: Mapping[Pattern, list[Entry]]) -> None:
    for pattern, entries in sorted(found.items()):
        _print(f"Current ACLs for resource `{pattern}`:\n{_lines(sorted(entries))}\n")


def _lines(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{printable(str(entry))}" for entry in entries)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


ACTIONS: Final = {"list": list_acls, "add": add, "remove": remove}
