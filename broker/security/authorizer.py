"""The authorizer decides what a client may do, based on the cluster's ACLs.

A client may do what an ACL allows, unless another ACL denies it. Upstream: StandardAuthorizer,
StandardAuthorizerData, Authorizer.authorizeByResourceType.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import product
from typing import Final, NamedTuple

from ...log.tasks import CooperativeTask
from ...topics.acls import (
    EVERYONE,
    WILDCARD,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    Acls,
    PatternType,
    Resource,
    Rules,
)
from .principal import INTERNAL, Principal
from .session import ClientSession

_log: Final = logging.getLogger("kohort.authorizer")

# A denied client may retry up to a thousand times per second, so only some denials are logged.
LOGGED_PER_SECOND_MAX: Final = 10

_IMPLIES_DESCRIBE: Final = {
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
}
# For each operation, the ACL operations that also allow it.
_ALLOWING: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    **{each: frozenset({each, AclOperation.ALL}) for each in AclOperation},
    AclOperation.DESCRIBE: frozenset({AclOperation.DESCRIBE, AclOperation.ALL, *_IMPLIES_DESCRIBE}),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALL, AclOperation.ALTER_CONFIGS}
    ),
}


class Denial(NamedTuple):
    """A request that was denied. `rule` is the ACL that denied it, or None if no ACL allowed it."""

    principal: Principal
    host: str
    operation: AclOperation
    resource: Resource
    api: str
    rule: Acl | None

    def __str__(self) -> str:
        """Return Kafka's line for `kafka.authorizer.logger`, without the reference count."""
        rule = "DefaultDeny" if self.rule is None else f"MatchingAcl(acl={self.rule})"
        type_ = self.resource.type.name.title().replace("_", "")
        return (
            f"Principal = {self.principal} is Denied operation = {self.operation.name} "
            f"from host = {self.host} on resource = {type_}:LITERAL:{self.resource.name} "
            f"for request = {self.api} based on rule {rule}"
        )


class Authorizer:
    """Authorizes clients. Only the registry changes `acls`. `super_users` are principals that may
    do everything, such as `User:alice`. `allows_by_default` is the decision for resources to which
    no ACL applies."""

    def __init__(
        self,
        acls: Acls,
        super_users: Collection[str] = (),
        *,
        allows_by_default: bool = False,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.acls = acls
        self._super_users = frozenset(super_users)
        self._allows_by_default = allows_by_default
        self._seconds = seconds
        # The current second, the number of denials logged in it, and the number of denials that
        # were not logged.
        self._logged_at, self._logged, self._unlogged = 0, 0, 0
        self.on_denied: Callable[[Denial], None] = lambda _denial: None
        """Hook: called with each denied request."""

    def authorize(
        self,
        client: ClientSession,
        operation: AclOperation,
        resource: Resource,
        api: str,
        *,
        reports: bool = True,
    ) -> bool:
        """Return whether the client may perform the operation. `api` is the name of the request.
        `reports` is True if a denial fails the request, and False if it only limits the
        response."""
        is_allowed, rule = self._decide(client, operation, resource)
        if not is_allowed and reports:
            host = _address(client)
            denial = Denial(client.principal, host, operation, resource, api, rule)
            self._log_denial(denial)
            self.on_denied(denial)
        return is_allowed

    def allowed_operations(
        self, client: ClientSession, resource: Resource, operations: Iterable[AclOperation]
    ) -> Iterator[AclOperation]:
        return (each for each in operations if self._decide(client, each, resource)[0])

    def authorize_any(
        self, client: ClientSession, operation: AclOperation, type_: AclResourceType
    ) -> CooperativeTask[bool]:
        """Return whether the client may perform the operation on any resource of the type, existing
        or not. Yields after each ACL of the client."""
        # As in Kafka, first check an arbitrary name, which authorizes super users and clients that
        # are allowed by default.
        if self._decide(client, operation, Resource(type_, "hardcode"))[0]:
            return True
        allowed: set[tuple[str, PatternType]] = set()
        denied: set[tuple[str, PatternType]] = set()
        host = _address(client)
        for principal in (str(client.principal), EVERYONE):
            for acl in list(self.acls.of(principal)):  # the ACLs may change between steps
                applies = acl.resource_type is type_ and acl.host in (WILDCARD, host)
                if applies and acl.operation in (operation, AclOperation.ALL):
                    is_denial = acl.permission is AclPermission.DENY
                    pattern = acl.resource_name, acl.pattern_type
                    (denied if is_denial else allowed).add(pattern)
                yield None
        everything = WILDCARD, PatternType.LITERAL
        if everything in denied or everything in allowed:
            return everything not in denied
        lengths = {len(name) for name, kind in denied if kind is PatternType.PREFIXED}
        for name, kind in allowed:
            if (name, kind) not in denied and not any(
                (name[:length], PatternType.PREFIXED) in denied for length in lengths
            ):
                return True
            yield None
        return False

    def _decide(
        self, client: ClientSession, operation: AclOperation, resource: Resource
    ) -> tuple[bool, Acl | None]:
        """Return the decision and the ACL that made it, if any."""
        principal = str(client.principal)
        if client.principal == INTERNAL or principal in self._super_users:
            return True, None
        if not self.acls:
            return self._allows_by_default, None
        allowing, allowed_by = _ALLOWING[operation], None
        host, has_acls = _address(client), False
        for rules in self.acls.applying_to(resource):
            has_acls = True
            for acl in _applying_to(rules, principal, host):
                if acl.permission is AclPermission.DENY:
                    # Denying READ, for example, does not deny DESCRIBE, although READ implies it.
                    if acl.operation in (operation, AclOperation.ALL):
                        return False, acl
                elif acl.operation in allowing:
                    allowed_by = acl
        is_allowed = allowed_by is not None or (not has_acls and self._allows_by_default)
        return is_allowed, allowed_by

    def _log_denial(self, denial: Denial) -> None:
        """Log up to LOGGED_PER_SECOND_MAX denials per second, and the number of the others."""
        second = int(self._seconds())
        if second != self._logged_at:
            self._logged_at, self._logged = second, 0
        if self._logged == LOGGED_PER_SECOND_MAX:
            self._unlogged += 1
            return
        self._logged += 1
        if self._unlogged:
            _log.info("%d more denied operations were not logged", self._unlogged)
            self._unlogged = 0
        _log.info("%s", denial)


def _applying_to(rules: Rules, principal: str, host: str) -> Iterator[Acl]:
    """Yield the ACLs of a pattern that apply to a client."""
    for client in product((principal, EVERYONE), (WILDCARD, host)):
        yield from rules.get(client, ())


def _address(client: ClientSession) -> str:
    host = client.host.removeprefix("/")
    return _java_ipv6(host) if ":" in host else host


@lru_cache(maxsize=1024)
def _java_ipv6(host: str) -> str:
    """Return an IPv6 address in Java's form, which ACLs for Kafka contain: `0:0:0:0:0:0:0:1`."""
    address, percent, scope = host.partition("%")
    groups = IPv6Address(address).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + scope
