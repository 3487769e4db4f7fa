"""DescribeClientQuotas (key 48, KIP-546). v1 flexible.

Upstream: DescribeClientQuotasRequest, ClientQuotasImage.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from ..security.quotas import CLIENT_ID, IP, USER
from .authorization import allows_cluster

EXACT, DEFAULT, ANY = 0, 1, 2
# Number of entities that are matched in one step, which takes about 0.5 ms.
ENTITIES_PER_STEP = 500


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    if not allows_cluster(context, node, AclOperation.DESCRIBE_CONFIGS):
        error = ErrorCode.cluster_authorization_failed
        context.respond(Message(error_code=error, error_message=None, entries=None))
        return
    components = context.request.components
    try:
        _validate(components)
    except ApiError as rejection:
        error, message = rejection.error, rejection.message
        context.respond(Message(error_code=error, error_message=message, entries=None))
        return
    entries = []
    for count, (entity, quotas) in enumerate(list(node.topics.security.client_quotas.items()), 1):
        if _matches(dict(entity), components, is_strict=context.request.strict):
            names = [Message(entity_type=kind, entity_name=name) for kind, name in entity]
            values = [Message(key=key, value=value) for key, value in quotas.items()]
            entries.append(Message(entity=names, values=values))
        if count % ENTITIES_PER_STEP == 0:
            yield
    # Kafka sends an empty message, not null.
    context.respond(Message(error_code=ErrorCode.none, error_message="", entries=entries))


def _matches(names: dict[str, str | None], components: Sequence[Any], *, is_strict: bool) -> bool:
    """A strict filter does not match entities with types that the filter lacks."""
    if is_strict and len(names) != len(components):
        return False
    return all(
        each.entity_type in names
        and (each.match_type == ANY or names[each.entity_type] == each.match)
        for each in components
    )


def _validate(components: Sequence[Any]) -> None:
    types: set[str] = set()
    for each in components:
        entity_type = each.entity_type
        if not entity_type:
            raise ApiError(ErrorCode.invalid_request, "Invalid empty entity type.")
        if entity_type in types:
            raise ApiError(
                ErrorCode.invalid_request,
                f"Entity type {entity_type} cannot appear more than once in the filter.",
            )
        if entity_type not in (USER, CLIENT_ID, IP):
            message = f"Unsupported entity type {entity_type}"
            raise ApiError(ErrorCode.unsupported_version, message)
        if message := _mismatch(each.match_type, each.match):
            raise ApiError(ErrorCode.invalid_request, message)
        types.add(entity_type)
    if IP in types and len(types) > 1:
        raise ApiError(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )


def _mismatch(match_type: int, match: str | None) -> str:
    """Return Kafka's error message if `match` is inconsistent with `match_type`, otherwise ""."""
    if match_type == EXACT and match is None:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null."
    if match_type == DEFAULT and match is not None:
        return "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
    if match_type == ANY and match is not None:
        return "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
    if match_type not in (EXACT, DEFAULT, ANY):
        return f"Unknown match type {match_type}"
    return ""
