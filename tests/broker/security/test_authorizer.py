"""The authorizer, compared with one that checks every ACL."""

import logging
from itertools import product
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.broker.security.authorizer import LOGGED_PER_SECOND_MAX, Authorizer, Denial
from kohort.broker.security.principal import INTERNAL, Principal, user
from kohort.broker.security.session import ClientSession
from kohort.log.tasks import run_synchronously
from kohort.topics.acls import (
    CLUSTER,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    Acls,
    PatternType,
    Resource,
)
from support.virtual_broker import LISTENER

NAMES = ("a", "ab", "abc", "b", "*", "a*")
USERS = ("alice", "bob", "*")
HOSTS = ("10.0.0.1", "10.0.0.2", "*")
TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)
OPERATIONS = tuple(each for each in AclOperation if each not in (0, 1))

acls = st.builds(
    Acl,
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from([f"User:{each}" for each in USERS]),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((AclPermission.ALLOW, AclPermission.DENY)),
)


def client(name: str = "alice", host: str = "10.0.0.1") -> ClientSession:
    return ClientSession(LISTENER, f"/{host}", user(name))


def topic(name: str) -> Resource:
    return Resource(AclResourceType.TOPIC, name)


def acl(
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermission = AclPermission.ALLOW,
    *,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
) -> Acl:
    return Acl(AclResourceType.TOPIC, name, pattern, principal, host, operation, permission)


def stored(*created: Acl) -> Acls:
    found = Acls()
    for each in created:
        found.add(each)
    return found


def applies(each: Acl, resource: Resource) -> bool:
    if each.resource_type != resource.type:
        return False
    if each.pattern_type is PatternType.PREFIXED:
        return resource.name.startswith(each.resource_name)
    return each.resource_name in ("*", resource.name)


def is_allowed(
    created: list[Acl],
    who: ClientSession,
    operation: AclOperation,
    resource: Resource,
    *,
    by_default: bool,
) -> bool:
    """Apply the rules of StandardAuthorizer to all ACLs one after the other."""
    relevant = [each for each in created if applies(each, resource)]
    if not relevant:
        return by_default
    own = [
        each
        for each in relevant
        if each.principal in (str(who.principal), "User:*") and each.host in ("*", who.host[1:])
    ]
    implied = {
        AclOperation.DESCRIBE: {"READ", "WRITE", "DELETE", "ALTER"},
        AclOperation.DESCRIBE_CONFIGS: {"ALTER_CONFIGS"},
    }
    direct = {operation.name, "ALL"}
    denied = [each for each in own if each.permission is AclPermission.DENY]
    allowed = [each for each in own if each.permission is AclPermission.ALLOW]
    return not any(each.operation.name in direct for each in denied) and any(
        each.operation.name in direct | implied.get(operation, set()) for each in allowed
    )


def allows_any(authorizer: Authorizer, who: ClientSession) -> bool:
    task = authorizer.authorize_any(who, AclOperation.WRITE, AclResourceType.TOPIC)
    return run_synchronously(task)


@given(st.lists(acls, max_size=12), st.lists(st.integers(0, 11)), st.booleans())
def test_decisions_are_those_of_a_look_at_every_acl(
    created: list[Acl], removed: list[int], by_default: bool
) -> None:
    kept = stored(*created)
    for index in removed:
        if index < len(created):
            kept.remove(created[index])
    authorizer = Authorizer(kept, allows_by_default=by_default)
    for name, host, operation, type_, resource_name in product(
        USERS[:2], HOSTS[:2], OPERATIONS, TYPES, ("a", "ab", "abcd", "c", "*")
    ):
        who, resource = client(name, host), Resource(type_, resource_name)
        expected = is_allowed(list(kept), who, operation, resource, by_default=by_default)
        assert authorizer.authorize(who, operation, resource, "Fetch", reports=False) is expected


@given(st.lists(acls, max_size=6))
def test_any_resource_is_allowed_if_one_can_be_allowed(created: list[Acl]) -> None:
    """A name is allowed if an ACL for the name or a prefix is not outweighed by ACLs that deny it.
    If any name is allowed, one of `names` is."""
    created = [each for each in created if each.host == "*" and each.principal != "User:bob"]
    authorizer, who = Authorizer(stored(*created)), client()
    names = [*NAMES, *(f"{each.resource_name}-{uuid4()}" for each in created)]
    found = any(
        is_allowed(created, who, AclOperation.WRITE, topic(name), by_default=False)
        for name in names
    )
    assert allows_any(authorizer, who) is found


@pytest.mark.parametrize("name", ["orders", "", "*"])
def test_super_users_and_clients_of_this_process_may_do_everything(name: str) -> None:
    denial = acl("*", AclOperation.ALL, AclPermission.DENY, principal="User:*")
    authorizer = Authorizer(stored(denial), {"User:root"})
    inside = ClientSession(LISTENER, "/inside", INTERNAL)
    for who in (client("root"), inside):
        assert authorizer.authorize(who, AclOperation.WRITE, topic(name), "Produce")
        assert allows_any(authorizer, who)
    other = ClientSession(LISTENER, "/10.0.0.1", Principal("Group", "root"))
    for who in (client(), other):
        assert not authorizer.authorize(who, AclOperation.WRITE, topic(name), "Produce")


def test_ipv6_addresses_of_acls_are_written_as_in_java() -> None:
    hosts = ("0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0")
    authorizer = Authorizer(stored(*(acl(host=host) for host in hosts)))
    for host, expected in (("::1", True), ("::2", False), ("fe80::1%eth0", True)):
        who = client(host=host)
        assert authorizer.authorize(who, AclOperation.READ, topic("orders"), "Fetch") is expected


def test_a_denial_is_reported_with_the_acl_that_denied() -> None:
    denying = acl(permission=AclPermission.DENY)
    authorizer = Authorizer(stored(denying, acl(operation=AclOperation.WRITE)))
    reported: list[Denial] = []
    authorizer.on_denied = reported.append
    who = client()
    assert not authorizer.authorize(who, AclOperation.READ, topic("orders"), "Fetch")
    assert not authorizer.authorize(who, AclOperation.ALTER, CLUSTER, "CreateAcls")
    bob = Resource(AclResourceType.USER, "User:bob")
    assert not authorizer.authorize(who, AclOperation.CREATE_TOKENS, bob, "CreateDelegationToken")
    transaction = Resource(AclResourceType.TRANSACTIONAL_ID, "t")
    assert not authorizer.authorize(who, AclOperation.WRITE, transaction, "InitProducerId")
    assert not authorizer.authorize(who, AclOperation.READ, topic("a"), "Fetch", reports=False)
    assert authorizer.authorize(who, AclOperation.WRITE, topic("orders"), "Produce")
    by_acl, by_default, of_user, of_transaction = reported
    assert by_acl == Denial(
        who.principal, "10.0.0.1", AclOperation.READ, topic("orders"), "Fetch", denying
    )
    assert str(by_acl) == (
        "Principal = User:alice is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Fetch based on rule MatchingAcl(acl=StandardAcl("
        "resourceType=TOPIC, resourceName=orders, patternType=LITERAL, principal=User:alice, "
        "host=*, operation=READ, permissionType=DENY))"
    )
    assert str(by_default) == (
        "Principal = User:alice is Denied operation = ALTER from host = 10.0.0.1 on resource = "
        "Cluster:LITERAL:kafka-cluster for request = CreateAcls based on rule DefaultDeny"
    )
    assert "on resource = User:LITERAL:User:bob for" in str(of_user)
    assert "on resource = TransactionalId:LITERAL:t for" in str(of_transaction)


def test_a_client_in_a_hurry_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [7.0]
    authorizer = Authorizer(Acls(), seconds=lambda: now[0])
    with caplog.at_level(logging.INFO, "kohort.authorizer"):
        for _ in range(500):
            authorizer.authorize(client(), AclOperation.READ, topic("orders"), "Fetch")
        assert len(caplog.messages) == LOGGED_PER_SECOND_MAX
        now[0] += 1
        authorizer.authorize(client(), AclOperation.READ, topic("orders"), "Fetch")
    count = 500 - LOGGED_PER_SECOND_MAX
    assert caplog.messages[-2] == f"{count} more denied operations were not logged"
    assert caplog.messages[-1].startswith("Principal = User:alice is Denied")


def test_acls_that_exist_twice_or_not_at_all_change_nothing() -> None:
    found = stored(acl(), acl())
    found.remove(acl("other"))
    assert list(found) == [acl()]
    found.remove(acl())
    assert not found
    assert not list(found.applying_to(topic("orders")))


class CountedAcl(Acl):
    """Counts how often ACLs are compared."""

    comparisons = 0

    __hash__ = Acl.__hash__

    def __eq__(self, other: object) -> bool:
        CountedAcl.comparisons += 1
        return super().__eq__(other)


def test_thousands_of_acls_of_one_pattern_are_removed_in_linear_time() -> None:
    created = [CountedAcl(*acl(host=f"h{number}")) for number in range(1_000)]
    found = stored(*created)
    CountedAcl.comparisons = 0
    for each in reversed(created):
        found.remove(CountedAcl(*each))
    assert not found
    assert CountedAcl.comparisons < 10 * len(created)


def test_a_client_with_thousands_of_acls_is_authorized_in_steps() -> None:
    """For a topic, each of a client's ACLs may have to be checked."""
    denial = AclPermission.DENY
    created = [acl(f"n{number}", AclOperation.WRITE) for number in range(1_000)]
    task = Authorizer(
        stored(*created, acl("n", AclOperation.ALL, denial, pattern=PatternType.PREFIXED))
    ).authorize_any(client(), AclOperation.WRITE, AclResourceType.TOPIC)
    assert sum(1 for _ in task) > 2 * len(created)
