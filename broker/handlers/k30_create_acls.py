"""CreateAcls (key 30). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ...protocol.budgets import ACLS_PER_REQUEST_MAX
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import (
    CLUSTER,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .common import respond_when_durable
from .k29_describe_acls import ACLS_PER_STEP, UNKNOWN, acl_denial

NO_AUTHORIZER: Final = "No Authorizer is configured."
TOO_MANY: Final = "Unable to perform excessively large batch operation."


class CreationResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""  # not null, as in Kafka


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    creations = context.request.creations
    can_exist = True
    for count, each in enumerate(creations, 1):
        if UNKNOWN in _codes(each):
            context.close_connection("CreateAcls with an UNKNOWN element")
            return
        can_exist = can_exist and _can_exist(each)
        if count % ACLS_PER_STEP == 0:
            yield
    if (failure := _failure(context, node, can_exist=can_exist)) is not None:
        context.respond(Message(results=[failure] * len(creations)))
        return
    responses: list[CreationResponse] = []
    new: dict[Acl, None] = {}
    for count, each in enumerate(creations, 1):
        try:
            acl = _validated(each)
        except ApiError as rejection:
            responses.append(CreationResponse(rejection.error, rejection.message))
        else:
            responses.append(CreationResponse())
            if acl not in node.topics.security.acls:
                new[acl] = None
        if count % ACLS_PER_STEP == 0:
            yield
    if len(new) > ACLS_PER_REQUEST_MAX:
        failure = CreationResponse(ErrorCode.policy_violation, TOO_MANY)
        context.respond(Message(results=[failure] * len(creations)))
        return
    for acl in new:
        node.topics.create_acl(acl)
        yield
    respond_when_durable(context, node, "results", responses, keys=0)


def _failure(context: RequestContext, node: Node, *, can_exist: bool) -> CreationResponse | None:
    """Return the response if the request fails as a whole, otherwise None."""
    if (denial := acl_denial(context, node, AclOperation.ALTER, NO_AUTHORIZER)) is not None:
        return CreationResponse(*denial)
    return None if can_exist else CreationResponse(ErrorCode.unknown_server_error, None)


def _can_exist(acl: Any) -> bool:
    """Whether Kafka can create an ACL object from this entry, which must not contain values that
    are only for filters."""
    values = _values(acl)
    return values[1] is not PatternType.MATCH and all(value.name != "ANY" for value in values)


def _codes(acl: Any) -> tuple[int, int, int, int]:
    return acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type


def _values(acl: Any) -> tuple[AclResourceType, PatternType, AclOperation, AclPermission]:
    type_, pattern_type, operation, permission = _codes(acl)
    return (
        AclResourceType(type_),
        PatternType(pattern_type),
        AclOperation(operation),
        AclPermission(permission),
    )


def _validated(requested: Any) -> Acl:
    """Return the ACL. Raises ApiError. The checks are in Kafka's order (upstream: AclApis,
    AclControlManager.validateNewAcl)."""
    values = _values(requested)
    name, principal = requested.resource_name, requested.principal
    if values[0] is AclResourceType.CLUSTER and name != CLUSTER.name:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not name:
        raise _invalid("Invalid empty resource name")
    for field, value in zip(
        ("resourceType", "patternType", "operation", "permissionType"), values, strict=True
    ):
        if value == UNKNOWN:
            raise _invalid(f"Invalid {field} UNKNOWN")
    if ":" not in principal:
        raise _invalid(
            f"Could not parse principal from `{principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    type_, pattern_type, operation, permission = values
    return Acl(type_, name, pattern_type, principal, requested.host, operation, permission)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)
