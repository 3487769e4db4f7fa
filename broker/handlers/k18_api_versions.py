"""ApiVersions (key 18).

v1 throttle_time · v3 flexible, client software, features · v4 features with minimum version 0. The
response header is always v0, because a client must be able to decode the response before it knows
the broker's versions (KIP-511).
"""

import re
from typing import NamedTuple

from ...protocol.apis import API_VERSIONS, NEWEST, PROFILES
from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..network.request import EncodedResponse, Message, RequestContext
from .common import is_illegal_in_exchange

# Upstream: ApiVersionsRequest.SOFTWARE_NAME_VERSION_PATTERN, without backtracking.
_SOFTWARE = re.compile(r"[a-zA-Z0-9]++(?:[\-.]++[a-zA-Z0-9]++)*+")


class ApiVersion(NamedTuple):
    api_key: int
    min_version: int
    max_version: int


class ApiVersionsResponse(NamedTuple):
    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    supported_features: tuple[Message, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[Message, ...] = ()


FEATURES = {"group.version": 1, "transaction.version": 2}
"""The features (KIP-584) of Kafka 4.3 that concern clients, and their newest versions."""


def _response(name: str, *, all_features: bool) -> ApiVersionsResponse:
    """Return the response for a profile. With `all_features` (since v4), the supported features
    include those whose lowest version is 0."""
    apis = [api for api in PROFILES[name].values() if api.is_listed]
    versions = (ApiVersion(a.key, a.advertised_min_version, a.max_version) for a in apis)
    response = ApiVersionsResponse(ErrorCode.none, tuple(versions))
    if name != NEWEST:
        return response
    return response._replace(
        supported_features=tuple(
            Message(name=feature, min_version=0, max_version=version)
            for feature, version in FEATURES.items()
            if all_features
        ),
        finalized_features_epoch=1,
        finalized_features=tuple(
            Message(name=feature, max_version_level=version, min_version_level=version)
            for feature, version in FEATURES.items()
        ),
    )


# Responses by profile and version. Encoding sixty APIs would take most of a request's time.
_encoded: dict[tuple[str, int], EncodedResponse] = {}

ILLEGAL = ApiVersionsResponse(ErrorCode.illegal_sasl_state, ())


def handle(context: RequestContext, node: Node) -> None:
    if is_illegal_in_exchange(context, node, ILLEGAL):
        return
    if context.version >= 3:
        request = context.request
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                context.respond(ApiVersionsResponse(ErrorCode.invalid_request, ()))
                return
        software = f"{request.client_software_name}/{request.client_software_version}"
        context.client.software = software
    if context.client.sasl is not None:
        context.client.sasl.versions_sent()
    key = node.config.str("kohort.profile"), context.version
    if key not in _encoded:
        _encoded[key] = context.encode(_response(key[0], all_features=context.version >= 4))
    context.respond_encoded(_encoded[key])


def handle_unsupported_version(context: RequestContext, node: Node) -> None:
    """Respond in v0 with the served versions of ApiVersions, so that the client can try again."""
    if is_illegal_in_exchange(context, node, ILLEGAL):
        return
    api = PROFILES[node.config.str("kohort.profile")][API_VERSIONS]
    supported = ApiVersion(api.key, api.min_version, api.max_version)
    context.respond(ApiVersionsResponse(ErrorCode.unsupported_version, (supported,)))
