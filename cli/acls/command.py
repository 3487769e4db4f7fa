"""The actions of AclCommand. Lists are sorted; Kafka's tool prints them in no particular order."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors
from kafka.protocol import admin as kafka_messages

from ...printable import printable
from ...topics.acls import AclOperation, AclPermission, AclResourceType, PatternType
from ..groups.cluster import client_arguments, error_of
from ..groups.connecting import TIMEOUT_MS, admin_client
from ..groups.errors import CommandError, RequestFailed, UsageError
from . import arguments
from .arguments import Entry, Pattern

# kafka-python's messages have no type annotations.
_acls: Any = kafka_messages

EVERYTHING: Final = Pattern(AclResourceType.ANY, None, PatternType.ANY)


def run(args: argparse.Namespace) -> int:
    """Run the action. Return 1 if flags are invalid or the cluster returns an error, else 0."""
    try:
        arguments.check(args)
        action = next(each for name, each in ACTIONS.items() if getattr(args, name))
        config = client_arguments(Path(args.command_config)) if args.command_config else {}
        # Before connecting, so that invalid flags are reported without a cluster.
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
    """The ACLs of a cluster. All methods raise CommandError. kafka-python's public methods are not
    used, because they lack the TwoPhaseCommit operation and the brokers' error messages."""

    def __init__(self, admin: Any) -> None:
        self._manager = admin._manager

    def describe(self, pattern: Pattern) -> dict[Pattern, list[Entry]]:
        response = self._send(_acls.DescribeAclsRequest, pattern, **_filter(pattern, None))
        _check(response)
        found: dict[Pattern, list[Entry]] = {}
        for resource in response.resources:
            pattern = Pattern(
                AclResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
            )
            found.setdefault(pattern, []).extend(map(_entry, resource.acls))
        return found

    def create(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        request = _acls.CreateAclsRequest
        creations = [
            request.AclCreation(
                resource_type=pattern.type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for entry in entries
        ]
        for result in self._send(request, pattern, creations=creations).results:
            _check(result)

    def delete(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Delete the pattern's ACLs with these entries, or all of its ACLs if `entries` is
        empty."""
        request = _acls.DeleteAclsRequest
        filters = [
            request.DeleteAclsFilter(**_filter(pattern, entry)) for entry in (*entries,) or (None,)
        ]
        for result in self._send(request, pattern, filters=filters).filter_results:
            _check(result)

    def _send(self, request: Any, pattern: Pattern, **fields: Any) -> Any:
        # Pattern types need version 1; the resource type USER needs version 3.
        min_version = 3 if pattern.type is AclResourceType.USER else 1
        try:
            message = request(min_version=min_version, **fields)
            return self._manager.run(self._manager.send, message)
        except kafka_errors.BrokerResponseError as error:
            raise RequestFailed(error_of(error.errno or -1)) from error
        except kafka_errors.KafkaError as error:
            raise CommandError(str(error)) from error


def _filter(pattern: Pattern, entry: Entry | None) -> dict[str, Any]:
    chosen = entry or (None, None, AclOperation.ANY, AclPermission.ANY)
    names = ("principal_filter", "host_filter", "operation", "permission_type")
    return {
        "resource_type_filter": pattern.type,
        "resource_name_filter": pattern.name,
        "pattern_type_filter": pattern.pattern_type,
        **dict(zip(names, chosen, strict=True)),
    }


def _entry(acl: Any) -> Entry:
    operation, permission = AclOperation(acl.operation), AclPermission(acl.permission_type)
    return Entry(acl.principal, acl.host, operation, permission)


def _check(result: Any) -> None:
    """Raise RequestFailed if the broker returned an error."""
    if result.error_code:
        raise RequestFailed(error_of(result.error_code, result.error_message))


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
