"""UpdateFeatures (key 57, KIP-584). v1 upgrade types, validate_only (KIP-778) · v2 one error for
all features.

The features are always at their newest version. No other version can be finalized.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext, in_slices
from .authorization import cluster_denial
from .k18_api_versions import FEATURES

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = UPGRADE_TYPES = (1, 2, 3)
PREFIX: Final = "The update failed for all features since the following feature had an error: "


class FeatureResult(NamedTuple):
    feature: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str = ErrorCode.none.name.upper()  # as in Kafka


class UpdateFeaturesResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    results: tuple[FeatureResult, ...] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    if (denial := cluster_denial(context, node, AclOperation.ALTER)) is not None:
        context.respond(UpdateFeaturesResponse(*denial))
        return
    results = []
    # The last update of a feature counts.
    updates: dict[str, Any] = {}
    for update in context.request.feature_updates:
        updates[update.feature] = update
        results.append(FeatureResult(update.feature))
        yield
    for name, update in updates.items():
        type_ = _upgrade_type(update, context.version)
        problem = _problem(node, name, update.max_version_level, type_)
        if problem is not None:
            level = update.max_version_level
            message = f"{PREFIX}Invalid update version {level} for feature {name}. {problem}"
            context.respond(UpdateFeaturesResponse(ErrorCode.invalid_update_version, message))
            return
        yield
    context.respond(UpdateFeaturesResponse(results=tuple(results)))


def _upgrade_type(update: Any, version: int) -> int:
    if version >= 1:
        type_: int = update.upgrade_type
        return type_
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE


def _problem(node: Node, name: str, level: int, type_: int) -> str | None:
    """Return why the feature cannot be set to this level. Upstream:
    FeatureControlManager.updateFeature, QuorumFeatures.reasonNotSupported."""
    if type_ not in UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    newest = FEATURES.get(name)
    controller = f"Local controller {node.topics.nodes.quorum_leader_id}"
    if newest is None:
        if level == 0:
            return f"Feature {name} not found."
        return f"{controller} does not support this feature."
    if level > newest:
        return f"{controller} only supports versions 0-{newest}"
    if level < newest and type_ == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if level < newest:
        return f"kohort cannot downgrade it below version {newest}."
    return None
