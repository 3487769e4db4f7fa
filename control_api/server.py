"""A socket for the controls, and a thread of its own that answers there."""

import asyncio
import socket
from contextlib import ExitStack
from typing import Any, Final, Self

import uvicorn

from ..protocol.framing import address
from ..testing.loop_thread import LoopThread
from .app import App
from .control import Control

# Those that wait for something in a broker that is stopped have nothing to wait for.
GOODBYE_SECONDS: Final = 1


class ControlServer:
    """`with ControlServer(control, "127.0.0.1", 0) as server:` listens at `server.url`; raises
    OSError for an address that cannot be had. Port 0: a free one."""

    def __init__(self, control: Control, host: str, port: int) -> None:
        self._host = host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family)
        config = uvicorn.Config(
            App(control),
            lifespan="off",
            ws="none",
            log_config=None,
            # Java's client asks each time for HTTP/2, and at the end somebody may still wait: it
            # complains of both. What fails in ours the application logs itself.
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._closing = ExitStack()

    @property
    def url(self) -> str:
        return f"http://{address(self._host, self._socket.getsockname()[1])}"

    def __enter__(self) -> Self:
        # Not the broker's loop: what is asked here waits for that one.
        self._loop = self._closing.enter_context(LoopThread("kohort-control"))

        def begin() -> "asyncio.Task[Any]":
            return asyncio.get_running_loop().create_task(self._server.serve([self._socket]))

        self._serving = self._loop.ask(begin)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True

        async def over() -> None:
            await self._serving

        with self._closing:
            self._loop.run(over())
        self._socket.close()
