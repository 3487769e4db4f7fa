"""HTTP in, JSON out: which endpoint is asked, with what, and what became of it.

Endpoints block, so each request has a thread; those that wait for something have theirs apart from
the others, which are answered however many wait.
"""

import asyncio
import json
import logging
from typing import Any, Final
from urllib.parse import unquote

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from ..testing.fake_members.arriving import PuppetRefused
from ..testing.faults import UnusedFault
from ..testing.loop_thread import Waiter
from ..testing.waiting import BarrierTimeout
from .control import Control
from .endpoint import Endpoint
from .endpoints import ENDPOINTS
from .fields import checked, from_text
from .openapi import document
from .page import page

_log = logging.getLogger("kohort.control_api")

# So many requests may wait at once, each in a thread: more barriers than a test has members.
WAITING_MAX: Final = 100
# So many others are handled at once; further ones have their turn after them.
AT_ONCE_MAX: Final = 16
# Ten thousand values of some hundred bytes.
BODY_BYTES_MAX: Final = 8 * 1024 * 1024


class Refused(Exception):
    """`status` and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class App:
    """An ASGI application."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._waiting = 0
        self._waits = CapacityLimiter(WAITING_MAX)
        self._others = CapacityLimiter(AT_ONCE_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(Request(scope, receive))
        except ClientDisconnect:
            return
        except Refused as refused:
            response = _json(refused.status, {"error": str(refused)})
        except Exception as error:
            _log.exception("%s failed", scope["path"])
            response = _json(500, {"error": str(error) or type(error).__name__})
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        _refuse_foreign_pages(request)
        path = request.scope["raw_path"].decode("latin-1")
        if request.method == "GET" and path == "/":
            return HTMLResponse(page(self._control.bootstrap_servers))
        if request.method == "GET" and path == "/openapi.json":
            return _json(200, document())
        endpoint, in_path = _found(request.method, path)
        given = {**await _given(endpoint, request), **in_path}
        try:
            given = checked(endpoint.fields, given)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return await self._call(endpoint, given, request)

    async def _call(self, endpoint: Endpoint, given: dict[str, Any], request: Request) -> Response:
        if not endpoint.waits:
            return await self._in_thread(endpoint, given, self._others, Waiter())
        if self._waiting >= WAITING_MAX:
            raise Refused(503, f"{WAITING_MAX} requests wait already: let some of them end")
        self._waiting += 1
        waiter = Waiter()
        watching = asyncio.create_task(_give_up_without(request, waiter))
        try:
            return await self._in_thread(endpoint, given, self._waits, waiter)
        finally:
            watching.cancel()
            waiter.give_up()
            self._waiting -= 1

    async def _in_thread(
        self, endpoint: Endpoint, given: dict[str, Any], limiter: CapacityLimiter, waiter: Waiter
    ) -> Response:
        def call() -> Response:
            return _json(200, endpoint.call(self._control, given))

        run = waiter.begin().run
        try:
            return await to_thread.run_sync(run, call, abandon_on_cancel=True, limiter=limiter)
        except Exception as error:
            if waiter.has_given_up:
                raise ClientDisconnect from error
            status = _status(error)
            if status is None:
                raise
            raise Refused(status, str(error)) from error


async def _give_up_without(client: Request, waiter: Waiter) -> None:
    """Who has gone waits no longer, and takes nobody else's place."""
    while (await client.receive())["type"] != "http.disconnect":
        pass
    waiter.give_up()


def _refuse_foreign_pages(request: Request) -> None:
    """A page of the web, open in a developer's browser, must not steer what has no password."""
    origin = request.headers.get("origin")
    if origin is not None and request.method != "GET":
        raise Refused(403, f"a page of {origin} may not steer this broker: ask from a program")


def _found(method: str, path: str) -> tuple[Endpoint, dict[str, Any]]:
    """The endpoint, and what the path gives it; raises Refused."""
    segments = [unquote(segment) for segment in path.split("/")[1:]]
    fitting = [
        (endpoint, given)
        for endpoint in ENDPOINTS
        if (given := endpoint.matches(segments)) is not None
    ]
    if not fitting:
        raise Refused(404, f"there is nothing at {path}; / tells what there is")
    for endpoint, given in fitting:
        if endpoint.method == method:
            return endpoint, _read(endpoint, given)
    methods = ", ".join(endpoint.method for endpoint, _ in fitting)
    raise Refused(405, f"{path} is for {methods}, not for {method}")


async def _given(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    """What the query or the body gives; raises Refused."""
    if endpoint.method == "GET":
        return _read(endpoint, dict(request.query_params))
    if request.query_params:
        raise Refused(400, f"a {endpoint.method} is given JSON in its body, and no query")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Refused(413, f"the body has more than {BODY_BYTES_MAX} bytes")
    if not body:
        return {}
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise Refused(400, "the body is no JSON object")
    for name in endpoint.in_path:
        if name in given:
            raise Refused(400, f"{name} stands in the path, and not in the body")
    return given


def _read(endpoint: Endpoint, texts: dict[str, str]) -> dict[str, Any]:
    """Texts of a path or a query as what their fields are; what is unknown is told later."""
    fields = {field.name: field for field in endpoint.fields}
    try:
        return {
            name: from_text(fields[name], text) if name in fields else text
            for name, text in texts.items()
        }
    except ValueError as error:
        raise Refused(400, str(error)) from error


def _status(error: Exception) -> int | None:
    """None: it is ours."""
    if isinstance(error, BarrierTimeout):
        return 408
    if isinstance(error, UnusedFault | PuppetRefused):
        return 409
    if type(error) is LookupError:  # not a KeyError, which would be ours
        return 404
    return 400 if isinstance(error, ValueError) else None


def _json(status: int, said: Any) -> Response:
    return Response(json.dumps(said, indent=2) + "\n", status, media_type="application/json")
