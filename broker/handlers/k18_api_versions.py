"""ApiVersions (key 18).

v1 throttle_time · v3 flexible, client software, features · v4 features from version 0 on.
The response header is always v0: a client must be able to decode the response before it knows the
broker's versions (KIP-511).
"""

import re
from typing import NamedTuple

from ...protocol.apis import API_VERSIONS, PROFILES, Profile
from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import RequestContext
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


def _response(profile: Profile) -> ApiVersionsResponse:
    apis = profile.values()
    versions = (ApiVersion(a.key, a.advertised_min_version, a.max_version) for a in apis)
    return ApiVersionsResponse(ErrorCode.none, tuple(versions))


RESPONSES = {name: _response(profile) for name, profile in PROFILES.items()}


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
    context.respond(RESPONSES[node.config.str("kohort.profile")])


def handle_unsupported_version(context: RequestContext, node: Node) -> None:
    """Respond in v0 with the versions that the client can use."""
    if is_illegal_in_exchange(context, node, ILLEGAL):
        return
    api = PROFILES[node.config.str("kohort.profile")][API_VERSIONS]
    supported = ApiVersion(api.key, api.min_version, api.max_version)
    context.respond(ApiVersionsResponse(ErrorCode.unsupported_version, (supported,)))
