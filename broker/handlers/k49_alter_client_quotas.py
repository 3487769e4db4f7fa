"""AlterClientQuotas (key 49, KIP-546). v1 flexible.

Upstream: ClientQuotaControlManager. As in Kafka, an entity that occurs twice in a request is
altered by its first entry, although the response contains an error.
"""

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from ...log.tasks import CooperativeTask
from ...protocol.budgets import ConcurrencyLimit
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.configs.config_def import INT_MAX, LONG_MAX
from ...topics.registry_log import ClientQuotaRecord, QuotaEntity
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from ..security.quotas import (
    CLIENT_ID,
    CLIENT_KEYS,
    IP,
    IP_KEYS,
    USER,
    addresses_of,
    entity_of,
    look_up,
)
from .authorization import allows_cluster
from .common import ERROR_MESSAGES, respond_when_durable

LARGEST = {"LONG": float(LONG_MAX), "INT": float(INT_MAX)}
# The order of an entity's names in a response, as in Kafka.
TYPES = (CLIENT_ID, USER, IP)
# A float counts as a whole number if it is at most this much larger.
EPSILON = 1e-6


class EntityResponse(NamedTuple):
    entity: list[Message]
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    request = context.request
    if not allows_cluster(context, node, AclOperation.ALTER_CONFIGS):
        error = ErrorCode.cluster_authorization_failed
        denial = error, ERROR_MESSAGES[error]
        entities = (
            _named((e.entity_type, e.entity_name) for e in each.entity) for each in request.entries
        )
        context.respond(Message(entries=[EntityResponse(each, *denial) for each in entities]))
        return
    responses: dict[QuotaEntity, EntityResponse] = {}
    for entry in request.entries:
        names = {each.entity_type: each.entity_name for each in entry.entity}
        identity, shown = entity_of(names), _shown(names)
        try:
            changes = {each.key: None if each.remove else each.value for each in entry.ops}
            if identity in responses or len(changes) < len(entry.ops):
                pairs = ", ".join(
                    f"{each.entity_type}={'null' if each.entity_name is None else each.entity_name}"
                    for each in shown
                )
                message = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{pairs}}})"
                raise ApiError(ErrorCode.invalid_request, message)
            yield from check_entity(names, node.security.quotas.lookups)
            stored = node.topics.security.client_quotas.get(identity, {})
            quotas = changed_quotas(names, stored, changes)
            if quotas != stored and not request.validate_only:
                node.topics.change(ClientQuotaRecord(identity, quotas))
        except ApiError as rejection:
            response = EntityResponse(shown, rejection.error, rejection.message)
        else:
            response = EntityResponse(shown)
        responses[identity] = response
        yield None
    respond_when_durable(context, node, "entries", list(responses.values()))


def _shown(names: Mapping[str, str | None]) -> list[Message]:
    ordered = sorted(names, key=lambda kind: TYPES.index(kind) if kind in TYPES else len(TYPES))
    return _named((kind, names[kind]) for kind in ordered)


def _named(names: Iterable[tuple[str, str | None]]) -> list[Message]:
    return [Message(entity_type=kind, entity_name=name) for kind, name in names]


def check_entity(
    names: Mapping[str, str | None], lookups: ConcurrencyLimit
) -> CooperativeTask[None]:
    """Raise ApiError unless an entity with these names can have quotas."""
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            message = f"Unhandled client quota entity type: {kind}"
            raise ApiError(ErrorCode.invalid_request, message)
        if name == "":
            raise ApiError(ErrorCode.invalid_request, f"Empty {kind} not supported")
    if not names:
        raise ApiError(ErrorCode.invalid_request, "Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            message = (
                "Invalid quota entity combination, IP entity should"
                "not be combined with User or ClientId"
            )
            raise ApiError(ErrorCode.invalid_request, message)
        address = names[IP]
        if address is not None and not (
            yield from look_up(lookups, partial(addresses_of, address))
        ):
            message = f"{address} is not a valid IP or resolvable host."
            raise ApiError(ErrorCode.invalid_request, message)


def changed_quotas(
    names: Mapping[str, str | None],
    stored: Mapping[str, float],
    changes: Mapping[str, float | None],
) -> dict[str, float]:
    """Return an entity's quotas after the changes. None removes a quota. Raises ApiError."""
    keys = IP_KEYS if IP in names else CLIENT_KEYS
    quotas = dict(stored)
    for key, value in changes.items():
        if value is None:
            quotas.pop(key, None)
        elif message := _invalid(keys, key, value):
            raise ApiError(ErrorCode.invalid_request, message)
        else:
            quotas[key] = value
    return quotas


def _invalid(keys: Mapping[str, str], key: str, value: float) -> str:
    """Return Kafka's error message for an invalid key or value, otherwise ""."""
    kind = keys.get(key)
    if kind is None:
        return f"Invalid configuration key {key}"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if kind == "DOUBLE":
        return ""
    if value > LARGEST[kind]:
        article = "an" if kind == "INT" else "a"
        return f"Proposed value for {key} is too large for {article} {kind}."
    # Kafka accepts NaN, which never throttles.
    if not math.isnan(value) and value - math.floor(value) > EPSILON:
        return f"{key} cannot be a fractional value."
    return ""
