"""CreateAcls (key 30). v1 pattern types (KIP-290) · v2 flexible · v3 resource type USER."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

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
from ..request import Message, RequestContext, in_slices
from .authorization import allows_cluster, cluster_denial
from .common import fail_unless_durable
from .k29_describe_acls import UNKNOWN

NO_AUTHORIZER: Final = "No Authorizer is configured."


class CreationResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""  # not null, as in Kafka


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    creations = context.request.creations
    if any(UNKNOWN in _codes(each) for each in creations):
        context.close_connection("CreateAcls with an UNKNOWN element")
        return
    if (failure := _failure(context, node)) is not None:
        context.respond(Message(results=[failure] * len(creations)))
        return
    responses = []
    for each in creations:
        try:
            node.topics.create_acl(_validated(each))
            responses.append(CreationResponse())
        except ApiError as rejection:
            responses.append(CreationResponse(rejection.error, rejection.message))
        yield
    node.topics.on_durable(partial(_respond, context, responses))


def _respond(
    context: RequestContext, responses: list[CreationResponse], error: OSError | None
) -> None:
    context.respond(Message(results=fail_unless_durable(responses, error, keys=0)))


def _failure(context: RequestContext, node: Node) -> CreationResponse | None:
    """The response if the request fails as a whole."""
    if not allows_cluster(context, node, AclOperation.ALTER):
        return CreationResponse(*cluster_denial(context, AclOperation.ALTER))
    if node.security.authorizer is None:
        return CreationResponse(ErrorCode.security_disabled, NO_AUTHORIZER)
    for each in context.request.creations:
        values = _values(each)
        # Kafka fails to create an object for these.
        if PatternType.MATCH in values[1:2] or any(value.name == "ANY" for value in values):
            return CreationResponse(ErrorCode.unknown_server_error, None)
    return None


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
    """Return the ACL. Raises ApiError; the checks are in Kafka's order (upstream: AclApis,
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
