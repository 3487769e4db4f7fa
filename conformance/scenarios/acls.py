"""CreateAcls, DescribeAcls, DeleteAcls, and the effects of ACLs."""

from typing import Any

from ...topics.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ..scenario import JAVA_OBJECTS, authorized, scenario
from ..script import ALL_ACLS, Script, acl


async def create(s: Script, *acls: dict[str, Any], version: int = 3, client_id: str = "x") -> Any:
    values = {"creations": acls}
    created = await s.send("CreateAcls", version, values, client_id=client_id)
    await s.broker.metadata_applied()
    return created


async def describe(s: Script, version: int = 3, client_id: str = "x", **fields: Any) -> None:
    await s.send("DescribeAcls", version, {**ALL_ACLS, **fields}, client_id=client_id)


async def delete(s: Script, *filters: dict[str, Any], version: int = 3, user: str = "x") -> None:
    values = {"filters": [{**ALL_ACLS, **each} for each in filters]}
    await s.send("DeleteAcls", version, values, client_id=user)
    await s.broker.metadata_applied()


@authorized("ACLs are created, described and deleted in every version")
async def acls_are_managed_in_every_version(s: Script) -> None:
    for version in (1, 2, 3):
        group = acl("g", type_=AclResourceType.GROUP, pattern=PatternType.PREFIXED)
        await create(s, acl("a"), acl("a", AclOperation.WRITE), group, version=version)
        await describe(s, version)
        await delete(s, {"resource_name_filter": "a"}, {"resource_name_filter": "z"})
        await describe(s, version)
        await delete(s, {}, version=version)
        await describe(s, version)
    for type_ in (AclResourceType.USER, AclResourceType.DELEGATION_TOKEN):
        await create(s, acl("User:bob", AclOperation.DESCRIBE_TOKENS, type_))
    await create(s)
    await delete(s)
    await describe(s)


@authorized("CreateAcls: invalid values, and the order in which values are checked")
async def invalid_acls_are_rejected(s: Script) -> None:
    cluster = AclResourceType.CLUSTER
    await create(s, acl("x", principal="alice"), acl("ok"), acl("", principal="alice"))
    await create(s, acl("x", principal=""), acl("x", principal=":"), acl("x", host=""))
    await create(s, acl("x", type_=cluster, operation=99), acl("", type_=cluster))
    await create(s, acl(CLUSTER_NAME, type_=cluster), acl("not a topic!"), acl("x" * 300))
    await create(s, acl("", 99), acl("y", 99, 9, 77, 88), acl("y", 99, pattern=77, permission=88))
    await create(s, acl("y", 99, permission=88, principal="q"), acl("y", permission=88))
    await describe(s)


@authorized("CreateAcls: ANY and MATCH are only valid in filters; UNKNOWN closes the connection")
async def acls_have_no_values_of_filters(s: Script) -> None:
    for wrong in (
        acl("x", AclOperation.ANY),
        acl("x", type_=AclResourceType.ANY),
        acl("x", pattern=PatternType.ANY),
        acl("x", pattern=PatternType.MATCH),
        acl("x", permission=AclPermission.ANY),
    ):
        await create(s, acl("ok"), wrong)
    for unknown in (acl("x", 0), acl("x", type_=0), acl("x", pattern=0), acl("x", permission=0)):
        await create(s, acl("ok"), unknown)
    await describe(s)


@authorized("an ACL that is created twice exists once")
async def an_acl_exists_once(s: Script) -> None:
    await create(s, acl("a"), acl("a"))
    await create(s, acl("a"), acl("a", permission=AclPermission.DENY))
    await describe(s)
    await delete(s, {"resource_name_filter": "a"}, {"resource_name_filter": "a"})
    await describe(s)


@authorized("DescribeAcls: by each field, with ANY, MATCH and unknown values")
async def acls_are_found_by_filters(s: Script) -> None:
    prefixed = {"pattern": PatternType.PREFIXED}
    await create(s, acl("orders"), acl("*"), acl("ord", **prefixed), acl("pay", **prefixed))
    await create(s, acl("orders", principal="User:bob"), acl("orders", host="10.0.0.1"))
    await create(s, acl("orders", permission=AclPermission.DENY), acl("orders", AclOperation.ALL))
    await create(s, acl("orders", type_=AclResourceType.GROUP))
    for pattern in PatternType:
        if pattern is not PatternType.UNKNOWN:
            for name in ("orders", "ord", "*", "none", "", None):
                fields = {"pattern_type_filter": pattern, "resource_name_filter": name}
                await describe(s, **fields)
    for field, value in (
        ("resource_type_filter", AclResourceType.GROUP),
        ("principal_filter", "User:bob"),
        ("principal_filter", "User:*"),
        ("host_filter", "10.0.0.1"),
        ("host_filter", "*"),
        ("operation", AclOperation.ALL),
        ("permission_type", AclPermission.DENY),
        ("resource_type_filter", 99),
        ("pattern_type_filter", 99),
        ("operation", 99),
        ("permission_type", 99),
        ("operation", 0),
    ):
        await describe(s, **{field: value})


@authorized("DeleteAcls: filters with unknown values; several filters that match the same ACL")
async def acls_are_deleted_by_filters(s: Script) -> None:
    await create(s, acl("orders"), acl("ord", pattern=PatternType.PREFIXED), acl("other"))
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        await delete(s, {field: 99}, {"resource_name_filter": "none"})
    await delete(s, {"pattern_type_filter": 0}, {})
    match = {"pattern_type_filter": PatternType.MATCH, "resource_name_filter": "orders"}
    await delete(s, match, {"resource_name_filter": "orders"})
    await describe(s)
    await delete(s, {}, {})
    await describe(s)


@authorized(
    "DescribeAcls needs DESCRIBE on the cluster, CreateAcls and DeleteAcls need ALTER",
    **JAVA_OBJECTS,
)
async def acls_are_managed_with_permission_to_alter_the_cluster(s: Script) -> None:
    for operation in ("", "DESCRIBE", "ALTER"):
        if operation:
            await s.allow("alice", operation, "cluster")
        await describe(s, client_id="alice", resource_name_filter="none")
        await create(s, acl("a"), acl("", 99), client_id="alice")
        await create(s, acl("b", AclOperation.ANY), client_id="alice")
        await delete(s, {"resource_name_filter": "a"}, {"operation": 99}, user="alice")
        await create(s, client_id="alice")
        await delete(s, user="alice")
    await create(s, acl("c"), client_id="root")
    await delete(s, {"resource_name_filter": "c"}, user="root")


# --- which ACLs apply


async def find_topics(s: Script, *topics: str, client_id: str = "alice") -> None:
    values = {
        "topics": [{"name": name, "topic_id": None} for name in topics],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }
    await s.send("Metadata", 12, values, client_id=client_id)


@authorized("literal, prefixed and wildcard patterns")
async def patterns_apply_to_names(s: Script) -> None:
    await find_topics(s, "orders", "payments", "shipments")
    await s.allow("alice", "DESCRIBE", "topic orders")
    await s.allow("alice", "READ", "topic pay", pattern="PREFIXED")
    await s.allow("alice", "WRITE", "topic shipments-and-more")
    await s.allow("alice", "ALTER", "topic shipments-and-more", pattern="PREFIXED")
    await s.allow("alice", "ALTER", "group shipments")
    await s.allow("bob", "ALTER", "topic shipments")
    await find_topics(s, "orders", "payments", "shipments")
    await s.allow("alice", "DELETE", "topic shipments", pattern="PREFIXED")
    await find_topics(s, "orders", "payments", "shipments")
    await s.allow("alice", "ALTER_CONFIGS", "topic *")
    await s.allow("alice", "CREATE", "topic *", pattern="PREFIXED")
    await find_topics(s, "orders", "payments", "shipments")


@authorized("a denial overrides each kind of permission")
async def denials_win(s: Script) -> None:
    for pattern, name in (("LITERAL", "*"), ("PREFIXED", "o"), ("LITERAL", "orders")):
        await s.allow("alice", "ALL", f"topic {name}", pattern=pattern)
    await find_topics(s, "orders")
    await s.deny("alice", "WRITE", "topic orders")
    await find_topics(s, "orders")
    await s.deny("alice", "READ", "topic ord", pattern="PREFIXED")
    await find_topics(s, "orders")
    await s.deny("alice", "DELETE", "topic *")
    await find_topics(s, "orders")
    await s.deny("*", "ALTER", "topic *")
    await find_topics(s, "orders")
    await s.deny("alice", "ALL", "topic orders")
    await find_topics(s, "orders", "payments")


@authorized("a denied READ or WRITE does not deny DESCRIBE")
async def denials_imply_nothing(s: Script) -> None:
    await s.deny("alice", "READ", "topic orders")
    await s.deny("alice", "ALTER_CONFIGS", "topic orders")
    await find_topics(s, "orders")
    await s.allow("alice", "WRITE", "topic orders")
    await find_topics(s, "orders")
    await s.deny("alice", "DESCRIBE", "topic orders")
    await find_topics(s, "orders")


@authorized("the operations that each operation implies")
async def operations_imply_others(s: Script) -> None:
    for operation in (
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "ALL",
    ):
        await s.allow("alice", operation, "topic orders")
        await find_topics(s, "orders")
        await s.delete_acls()


@authorized("an ACL applies to its host")
async def acls_apply_to_hosts(s: Script) -> None:
    await s.allow("alice", "READ", "topic orders", host="10.0.0.1")
    await find_topics(s, "orders")
    await s.allow("alice", "WRITE", "topic orders", host="127.0.0.1")
    await find_topics(s, "orders")
    await s.deny("alice", "ALL", "topic orders", host="10.0.0.1")
    await find_topics(s, "orders")
    await s.deny("alice", "ALL", "topic orders", host="127.0.0.1")
    await find_topics(s, "orders")


@authorized("an ACL of User:* applies to everyone but super users")
async def acls_apply_to_principals(s: Script) -> None:
    await s.allow("*", "READ", "topic orders")
    await s.deny("bob", "READ", "topic orders")
    for user in ("alice", "bob", "root", "x"):
        await find_topics(s, "orders", client_id=user)
    await s.deny("*", "ALL", "topic orders")
    for user in ("alice", "bob", "root", "x"):
        await find_topics(s, "orders", client_id=user)


@scenario("with allow.everyone.if.no.acl.found, a resource without ACLs is open", settings="open")
async def resources_without_acls_may_be_open(s: Script) -> None:
    await find_topics(s, "orders", "payments")
    await s.allow("bob", "READ", "topic orders")
    await find_topics(s, "orders", "payments")
    await s.deny("bob", "READ", "topic pay", pattern="PREFIXED")
    await find_topics(s, "orders", "payments", "shipments")
    await s.allow("bob", "READ", "topic *")
    await find_topics(s, "orders", "payments", "shipments")
    await s.send("InitProducerId", 5, {"transactional_id": None}, client_id="alice")
    await s.member("alice").heartbeat()
