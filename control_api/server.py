"""The HTTP server: an ASGI application that calls the endpoints, and a thread that serves it.

If the server has a token, every request must contain it. Without a token, the server may listen
only on this machine. The endpoint functions block, so each request gets a thread. Requests that
wait have a separate thread pool, so that other requests are served regardless of how many are
waiting."""

import asyncio
import hmac
import logging
import re
import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

try:
    import msgspec
    import uvicorn
    from anyio import CapacityLimiter, to_thread
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, Response
    from starlette.types import Receive, Scope, Send
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"kohort.control_api needs {error.name}: run pip install './kohort[control]' in the folder "
        "that contains the clone",
        name=error.name,
    ) from error

from ..protocol.framing import address
from ..testing.fake_members.fake_member import FakeMemberRejected
from ..testing.faults.faults import UnusedFault
from ..testing.kafka import Kafka
from ..testing.lifecycle import LOCALHOST
from ..testing.loop_thread import BarrierTimeout, CancelScope, LoopThread
from . import TOKEN_VARIABLE
from .control import Control
from .endpoint import Endpoint
from .endpoints import ENDPOINTS
from .openapi import document, page
from .schema_registry import CONTENT_TYPE, PREFIX, RegistryError

_log = logging.getLogger("kohort.control_api")

# The maximum number of waiting requests, one thread each. Tests need fewer.
WAITING_MAX: Final = 100
# The maximum number of other concurrent requests. Further requests are queued.
CONCURRENT_MAX: Final = 16
# Ten thousand values of a few hundred bytes each.
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
# Maximum time for requests to complete when the server stops.
SHUTDOWN_SECONDS: Final = 1
# Reserved names: *.localhost is this machine (RFC 6761), and *.internal is for private networks, as
# in host.docker.internal.
LOCAL_DOMAINS: Final = (".localhost", ".internal")


# Visible ASCII characters, which need no encoding in an HTTP header.
TOKEN: Final = re.compile(r"[!-~]++")


class HttpError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class App:
    """The ASGI application. `host` is the name on which the server listens."""

    def __init__(self, control: Control, host: str, token: str | None) -> None:
        self._control = control
        self._host = host
        self._token = token
        self._waiting = 0
        self._wait_limiter = CapacityLimiter(WAITING_MAX)
        self._limiter = CapacityLimiter(CONCURRENT_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(Request(scope, receive))
        except ClientDisconnect:
            return
        except HttpError as error:
            response = _json(error.status, {"error": str(error)})
            if error.status == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
        except Exception as error:
            _log.exception("%s failed", scope["path"])
            response = _json(500, {"error": str(error) or type(error).__name__})
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        _check_host(request, self._host)
        _check_origin(request)
        if self._token is not None:
            _check_token(request, self._token)
        path = request.scope["raw_path"].decode("latin-1")
        if request.method == "GET" and path == "/":
            return HTMLResponse(
                page(self._control.bootstrap_servers, has_token=self._token is not None)
            )
        if request.method == "GET" and path == "/openapi.json":
            return _json(200, document())
        if path.startswith(f"{PREFIX}/"):
            return await self._registry(request, path.removeprefix(PREFIX))
        endpoint, in_path = _route(request.method, path)
        is_query = endpoint.method == "GET"
        others = dict(request.query_params) if is_query else await _read_body(request)
        try:
            arguments = endpoint.parse(in_path, others)
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        return await self._call(endpoint, arguments, request)

    async def _registry(self, request: Request, path: str) -> Response:
        try:
            body = await _read_json(request)
            handle = self._control.schema_registry.handle
            content = handle(request.method, path, request.query_params, body)
            status = 200
        except (RegistryError, HttpError) as error:
            code = error.code if isinstance(error, RegistryError) else error.status
            status, content = error.status, {"error_code": code, "message": str(error)}
        return Response(msgspec.json.encode(content), status, media_type=CONTENT_TYPE)

    async def _call(
        self, endpoint: Endpoint, arguments: dict[str, Any], request: Request
    ) -> Response:
        if not endpoint.can_wait:
            return await self._in_thread(endpoint, arguments, self._limiter, CancelScope())
        if self._waiting >= WAITING_MAX:
            raise HttpError(503, f"{WAITING_MAX} requests are already waiting")
        self._waiting += 1
        scope = CancelScope()
        watching = asyncio.create_task(_cancel_on_disconnect(request, scope))
        try:
            return await self._in_thread(endpoint, arguments, self._wait_limiter, scope)
        finally:
            watching.cancel()
            scope.cancel()
            self._waiting -= 1

    async def _in_thread(
        self,
        endpoint: Endpoint,
        arguments: dict[str, Any],
        limiter: CapacityLimiter,
        scope: CancelScope,
    ) -> Response:
        def call() -> Response:
            return _json(200, endpoint.function(self._control, **arguments))

        run = scope.context().run
        try:
            return await to_thread.run_sync(run, call, abandon_on_cancel=True, limiter=limiter)
        except Exception as error:
            if scope.is_cancelled:
                raise ClientDisconnect from error
            status = _status(error)
            if status is None:
                raise
            raise HttpError(status, str(error)) from error


async def _cancel_on_disconnect(request: Request, scope: CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _check_host(request: Request, own: str) -> None:
    """Reject DNS rebinding, by which a web page whose host name resolves to this machine could read
    the responses. Names that cannot exist in the public DNS are accepted."""
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:  # an unclosed bracket
        name = "."
    if "." not in name or name.endswith(LOCAL_DOMAINS) or name == own.lower() or _is_ip(name):
        return
    raise HttpError(
        403, f"unknown host {host}: use localhost, an IP address, or the name in --control-host"
    )


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _check_token(request: Request, token: str) -> None:
    """Raise HttpError unless the request contains the token. The comparison time does not reveal
    how much of a wrong token is correct."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), token.encode()):
        raise HttpError(
            401,
            f"the {'token is wrong' if given else 'token is missing'}: send the header "
            f"Authorization: Bearer TOKEN, with the server's token ({TOKEN_VARIABLE} or "
            "--control-token)",
        )


def _check_origin(request: Request) -> None:
    """Reject requests from web pages, because without a token, a page in a developer's browser
    could control the broker."""
    if request.method == "GET":
        return
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "none")  # "none": not sent by a page
    if origin is not None or site != "none":
        raise HttpError(403, f"requests from web pages are rejected (origin {origin or site})")


def _route(method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint, and the parameters in the path."""
    matching = [(each, match) for each in ENDPOINTS if (match := each.match(path)) is not None]
    if not matching:
        raise HttpError(404, f"no endpoint {path}: / lists all endpoints")
    for endpoint, match in matching:
        if endpoint.method == method:
            return endpoint, {name: unquote(text) for name, text in match.items()}
    methods = ", ".join(endpoint.method for endpoint, _ in matching)
    raise HttpError(405, f"{path} does not support {method}, only {methods}")


async def _read_body(request: Request) -> dict[str, Any]:
    if request.query_params:
        raise HttpError(400, f"{request.method} takes its parameters from a JSON body, not a query")
    return await _read_json(request)


async def _read_json(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise HttpError(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    if not body:
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise HttpError(400, f"the body is not a JSON object: {error}") from error


def _status(error: Exception) -> int | None:
    """Return the HTTP status; None for an unexpected error."""
    if isinstance(error, BarrierTimeout):
        return 408
    if isinstance(error, UnusedFault | FakeMemberRejected):
        return 409
    if type(error) is LookupError:  # a KeyError would be a bug
        return 404
    return 400 if isinstance(error, ValueError) else None


def _json(status: int, content: Any) -> Response:
    encoded = msgspec.json.format(msgspec.json.encode(content), indent=2)
    return Response(encoded + b"\n", status, media_type="application/json")


def serving(
    kafka: Kafka, host: str = LOCALHOST, port: int = 0, token: str | None = None
) -> "ControlServer":
    """Serve the control API of a test's broker, with a schema registry: `with serving(kafka) as
    server:`. Raises OSError if the server cannot listen, and ValueError for an invalid or missing
    token."""
    return ControlServer(Control(kafka), host, port, token)


class ControlServer:
    """A thread that serves the control API at `url`: `with ControlServer(control, "127.0.0.1", 0)
    as server:`. Port 0 selects a free port. Requests must contain `token`, which may be None only
    if `host` is this machine. Raises OSError if the server cannot listen, and ValueError for an
    invalid or missing token."""

    def __init__(self, control: Control, host: str, port: int, token: str | None = None) -> None:
        if token is not None and not TOKEN.fullmatch(token):
            raise ValueError("invalid token: expected visible ASCII characters, without spaces")
        self.control = control
        self._host = host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        # Connections inherit TCP_NODELAY, which asyncio does not set for this kind of socket.
        # Without it, the body of a response on an open connection would wait 40 ms for the
        # acknowledgement of its header.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if token is None and not ip_address(self._socket.getsockname()[0]).is_loopback:
            self._socket.close()
            raise ValueError(
                f"the control API on {host} needs a token, because others can reach it: set "
                f"{TOKEN_VARIABLE} or --control-token, or listen on 127.0.0.1"
            )
        config = uvicorn.Config(
            App(control, host, token),
            lifespan="off",
            ws="none",
            log_config=None,
            # uvicorn would warn about every request of Java's HttpClient, which offers HTTP/2, and
            # about requests that are still waiting at shutdown. The application logs its own
            # errors.
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._closing = ExitStack()

    @property
    def url(self) -> str:
        return f"http://{address(self._host, self._socket.getsockname()[1])}"

    @property
    def schema_registry_url(self) -> str:
        """The value for `schema.registry.url` of serializers."""
        return f"{self.url}{PREFIX}"

    def __enter__(self) -> Self:
        # A separate loop, so that HTTP requests do not delay the broker's loop.
        self._loop = self._closing.enter_context(LoopThread("kohort-control"))

        def start() -> "asyncio.Task[Any]":
            return asyncio.get_running_loop().create_task(self._server.serve([self._socket]))

        self._serving = self._loop.call(start)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True

        async def finished() -> None:
            await self._serving

        with self._closing:
            self._loop.run(finished())
        self._socket.close()
