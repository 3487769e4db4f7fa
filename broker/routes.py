"""Where a request goes: (key, version) -> how to read it, who handles it, how to write the answer.

A route is made at its first use: starting must not pay for schemas and writers nobody asks for.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ..protocol.apis import API_VERSIONS, BY_KEY, Api
from ..protocol.errors import UnknownApi, UnsupportedVersion
from ..protocol.guards import Finder
from ..protocol.messages import request_decoder, request_finder, response_writer
from ..protocol.profiles import Profile
from .request_cache import RUN_MAX, RepeatHandler


def _no_changes(_buffer: bytes, _body: int, _end: int) -> list[tuple[int, str]]:
    return []


class Route(NamedTuple):
    api: Api
    version: int
    read: Callable[[bytes, int, int], Any]
    """(buffer, start of the body, its end) -> kio's message of the request."""
    handle: Callable[[Any, Any], RepeatHandler | None]
    """handle(call, node), of the handler's module."""
    write: Callable[[Any, int], bytes]
    """(response message, correlation id) -> the whole frame."""
    find_changes: Finder = _no_changes
    """Where in the body the numbers stand by which repeated requests differ: the handler names
    their field in CHANGES."""
    run_max: int = RUN_MAX
    """So many repeated requests may be asked together: one, where the next has to wait for the
    answer (the handler says PARKS)."""


class Routes(dict[tuple[int, int], Route]):
    """(key, version), as a request header has them -> Route. Raises UnknownApi and
    UnsupportedVersion for what its profile does not serve."""

    profile: Profile = BY_KEY

    def __missing__(self, asked: tuple[int, int]) -> Route:
        key, version = asked
        api = self._api(key, version)
        handler = import_module(f".handlers.{api.handler}", __package__)
        if key == API_VERSIONS and not api.serves(version):
            # The one refusal that is answered; in v0, which every client can read (KIP-511).
            route = Route(api, 0, lambda *_: None, handler.refuse, response_writer(key, 0))
        else:
            changes: str | None = getattr(handler, "CHANGES", None)
            finder = request_finder(key, version, changes) if changes else _no_changes
            route = Route(
                api,
                version,
                request_decoder(key, version),
                handler.handle,
                response_writer(key, version),
                finder,
                1 if hasattr(handler, "PARKS") else RUN_MAX,
            )
        # Only what is served is remembered: clients may not fill our memory with versions.
        if api.serves(version):
            self[asked] = route
        return route

    def _api(self, key: int, version: int) -> Api:
        """read_request_header lets nothing through that no profile serves."""
        api = self.profile.get(key)
        if api is None:
            raise UnknownApi(f"{BY_KEY[key].name} (key {key}) is not served in this profile")
        if key != API_VERSIONS and not api.serves(version):
            raise UnsupportedVersion(
                f"{api.name} (key {key}) is served in versions {api.min_version} to "
                f"{api.max_version} in this profile, not in version {version}"
            )
        return api
