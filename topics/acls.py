"""ACLs (KIP-11, KIP-290), and an index that finds the ACLs that apply to a resource.

The enums use the protocol's names and codes. Upstream: AclBinding, AclBindingFilter,
AclCache.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""As a literal resource name, it stands for every resource of the type. As a host, it stands for
every host."""
EVERYONE: Final = "User:*"
"""The principal of ACLs that apply to every principal."""
CLUSTER_NAME: Final = "kafka-cluster"


class _ProtocolEnum(IntEnum):
    """A protocol enum, in which unsupported codes become UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> "_ProtocolEnum":  # noqa: ARG003
        return cls(0)


class AclResourceType(_ProtocolEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_ProtocolEnum):
    """MATCH is for filters, and selects the patterns that apply to a resource with the filter's
    name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_ProtocolEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


SUPPORTED_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.TWO_PHASE_COMMIT,
    ),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that clients can perform on resources of a type (upstream:
AclEntry.supportedOperations)."""


class AclPermission(_ProtocolEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Resource(NamedTuple):
    type: AclResourceType
    name: str


CLUSTER: Final = Resource(AclResourceType.CLUSTER, CLUSTER_NAME)


class Acl(NamedTuple):
    """Allows or denies a principal an operation from a host, on the resources that match a
    pattern."""

    resource_type: AclResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"StandardAcl(resourceType={self.resource_type.name}, "
            f"resourceName={self.resource_name}, patternType={self.pattern_type.name}, "
            f"principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


class AclFilter(NamedTuple):
    """Selects ACLs. None and ANY select all values of a field."""

    resource_type: AclResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission: AclPermission

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type is not PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, acl.pattern_type) and (
                self.resource_name in (None, acl.resource_name)
            )
        if self.resource_name is None:
            return True
        if acl.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, WILDCARD)


Rules = dict[tuple[str, str], dict[Acl, None]]
"""The ACLs of one pattern, by principal and host."""


class Acls:
    """The ACLs of a cluster, in order of creation."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with each change, so that cached decisions can be invalidated."""
        self._all: dict[Acl, None] = {}
        self._by_principal: dict[str, dict[Acl, None]] = {}
        self._literal: dict[Resource, Rules] = {}
        self._prefixed: dict[Resource, Rules] = {}
        # The number of prefixes of each length. There are far fewer lengths than prefixes, so a
        # name's prefixes are looked up by length.
        self._lengths: dict[AclResourceType, Counter[int]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._all)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._all

    def applying_to(self, resource: Resource) -> Iterator[Rules]:
        """Yield the rules of each pattern that matches the resource."""
        type_, name = resource
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            if (rules := self._literal.get(Resource(type_, literal))) is not None:
                yield rules
        for length in self._lengths.get(type_, ()):
            if length > len(name):
                continue
            if (rules := self._prefixed.get(Resource(type_, name[:length]))) is not None:
                yield rules

    def of(self, principal: str) -> Collection[Acl]:
        return self._by_principal.get(principal, ())

    def add(self, acl: Acl) -> None:
        if acl in self._all:
            return
        self.version += 1
        self._all[acl] = self._by_principal.setdefault(acl.principal, {})[acl] = None
        resource, patterns = Resource(*acl[:2]), self._of(acl.pattern_type)
        if resource not in patterns:
            patterns[resource] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                self._lengths.setdefault(resource.type, Counter())[len(resource.name)] += 1
        patterns[resource].setdefault((acl.principal, acl.host), {})[acl] = None

    def remove(self, acl: Acl) -> None:
        if acl not in self._all:
            return
        self.version += 1
        del self._all[acl], self._by_principal[acl.principal][acl]
        if not self._by_principal[acl.principal]:
            del self._by_principal[acl.principal]
        resource, patterns = Resource(*acl[:2]), self._of(acl.pattern_type)
        rules, client = patterns[resource], (acl.principal, acl.host)
        del rules[client][acl]
        if not rules[client]:
            del rules[client]
        if not rules:
            del patterns[resource]
            if acl.pattern_type is PatternType.PREFIXED:
                lengths = self._lengths[resource.type]
                lengths[len(resource.name)] -= 1
                if not lengths[len(resource.name)]:
                    del lengths[len(resource.name)]

    def clear(self) -> None:
        self.version += 1
        for each in (self._all, self._by_principal, self._literal, self._prefixed, self._lengths):
            each.clear()

    def _of(self, pattern_type: PatternType) -> dict[Resource, Rules]:
        return self._prefixed if pattern_type is PatternType.PREFIXED else self._literal
