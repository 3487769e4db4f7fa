"""`kohort serve --control-port`: a broker of the test harness with its control API."""

import argparse
import logging
import os
import signal
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Final

from ..broker.config.broker_config import BrokerConfig
from ..control_api import TOKEN_VARIABLE
from . import serve, signals
from .errors import UserError
from .imports import hypothesis_hidden
from .logs import logging_to_stderr

log = logging.getLogger("kohort.serve")

LIBRARIES: Final = ("msgspec", "starlette", "uvicorn")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP. Raises UserError."""
    config = in_memory(serve.load_config(args))
    with logging_to_stderr(args, config):
        serve_with_control_api(config, args)
    return 0


def in_memory(config: BrokerConfig) -> BrokerConfig:
    """Return the configuration with durability none as the default, because syncing an in-memory
    disk is useless. Raises UserError."""
    if config.origin("log.dirs") == "--data-dir":
        raise UserError("with --control-port all data is in memory: remove --data-dir.")
    if config.origin("kohort.durability") == "default":
        config = config.changed("kohort.durability", "none", "--control-port")
    return config


def serve_with_control_api(config: BrokerConfig, args: argparse.Namespace) -> None:
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"--control-port needs {', '.join(missing)}: run pip install "
            "'./kohort[control]' in the folder that contains the clone."
        )
    port = args.control_port
    if not serve.is_port(port):
        raise UserError(f"invalid --control-port {port!r}: expected 0 to 65535.")
    host = args.control_host or "127.0.0.1"
    stopping = signals.SignalFlag()
    for number in signals.stop_signals():
        signal.signal(number, lambda *_: stopping.set())
    with hypothesis_hidden():
        from ..control_api.control import Control
        from ..control_api.server import ControlServer
        from ..testing.kafka import Kafka
    listener = config.listeners[0]
    kafka = Kafka(
        config=config,
        preset=args.control_preset or "kafka",
        durability=config.durability,
        host=listener.host,
        port=listener.port,
    )
    with ExitStack() as running:
        try:
            kafka.start()
        except (OSError, UnicodeError) as error:
            raise UserError(
                serve.start_error(error, config.listeners, config.int("kohort.nodes"))
            ) from error
        # On exit, `with kafka:` would raise UnusedFault for faults that have not fired.
        running.callback(kafka.stop)
        try:
            server = ControlServer(Control(kafka), host, int(port), _token(args))
        except ValueError as error:
            raise UserError(f"{error}.") from error
        except OSError as error:
            raise UserError(
                f"the control API cannot listen on {host}:{port} ({error.strerror or error}): "
                "choose another --control-host, or another --control-port (0: any free one)."
            ) from error
        running.enter_context(server)
        serve.print_listening(kafka.broker, None)
        serve.log_listeners(kafka.broker)
        print(f"control {server.url}", flush=True)
        stopping.wait()
        log.info("Shutting down")


def _token(args: argparse.Namespace) -> str | None:
    token: str | None = args.control_token
    return (os.environ.get(TOKEN_VARIABLE) or None) if token is None else token
