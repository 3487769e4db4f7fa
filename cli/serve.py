"""`kohort serve`: settings in, a broker that listens, one line that says so, a clean end."""

import argparse
import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import starmap
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from .. import __version__
from ..broker.config.broker_config import BrokerConfig, ConfigError
from ..broker.config.listeners import Listener
from ..broker.config.settings import Settings
from ..log.errors import FolderInUse, LogError
from ..protocol.addresses import address
from ..topics.records import UnreadableRecord
from ..topics.registry_check import DamagedRegistry
from . import logs, memory
from .errors import UserError

if TYPE_CHECKING:
    from ..broker.broker import Broker

log = logging.getLogger("kohort.serve")

# How many more objects make the collector look: more than the requests under way have, which are
# freed without it, and few enough to be looked at within some milliseconds. With Python's 700 it
# takes 2 % of a pipelined commit and 7 % of a round of a thousand members.
COLLECT_ABOVE = 10_000


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; raises UserError for what the user can mend."""
    try:
        config = configured(args)
    except ConfigError as error:
        raise UserError(str(error)) from error
    if args.print_config:
        print_config(config)
        for warning in config.warnings():
            print(f"kohort serve: {warning}", file=sys.stderr)
        return 0
    if args.control_port is None and (args.control_host or args.control_preset):
        raise UserError("--control-host and --control-preset are for --control-port: add that.")
    logs.set_up(args.log_level, args.log_format)
    if args.control_port is not None:
        from . import control

        config = control.in_memory(config)
    for warning in config.warnings():
        log.warning(warning)
    if args.control_port is not None:
        control.serve(config, args)
        return 0
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(config))
    return 0


def configured(args: argparse.Namespace) -> BrokerConfig:
    """The settings that these flags, the environment and the file give; raises ConfigError."""
    config = BrokerConfig.load(args.config, os.environ, args.override)
    if args.durability is not None:
        config = config.changed("kohort.durability", args.durability, "--durability")
    if args.events is not None:
        config = config.changed("kohort.events", args.events, "--events")
    if args.data_dir is not None:
        if not args.data_dir.strip():
            raise ConfigError("--data-dir names no folder: name one, or leave the flag out.")
        config = config.changed("log.dirs", args.data_dir, "--data-dir")
    if args.cache_offsets is not None:
        config = config.changed("kohort.cache.offsets", args.cache_offsets, "--cache-offsets")
    if args.nodes is not None:
        config = config.changed("kohort.nodes", args.nodes, "--nodes")
    if args.profile is not None:
        config = config.changed("kohort.profile", args.profile, "--profile")
    if args.host is None and args.port is None:
        return config
    listener = config.listener
    host = listener.host if args.host is None else args.host
    port = listener.port if args.port is None else args.port
    flags = " ".join(
        flag for flag, given in (("--host", args.host), ("--port", args.port)) if given is not None
    )
    if not str(port).isdecimal() or int(port) > 65535:
        raise ConfigError(f"--port {port} is no port: give one from 0 to 65535 (0: any free one).")
    return config.changed("listeners", f"{listener.name}://{address(host, port)}", flags)


def print_config(settings: Settings) -> None:
    for key in sorted(settings):
        value = settings.text(key)
        print(f"{key}={'' if value is None else value}  ({settings.origin(key)})")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where the extra `speed` is installed."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


async def serve(config: BrokerConfig) -> None:
    """Start, say so on standard output, wait for SIGTERM or SIGINT, stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    data_dir, listener = config.data_dir, config.listener
    if data_dir is not None:
        check_folder(data_dir)
    broker = new_broker(config)
    broker.on_folder_lost = stopping.set
    try:
        await broker.start(listener.host, listener.port)
    except (ConfigError, FolderInUse) as error:
        raise UserError(str(error)) from error
    except DamagedRegistry as error:
        raise UserError(
            f"the data in {data_dir} cannot be read ({error}): "
            f"`kohort log repair {data_dir}` keeps what is sound; or choose another --data-dir."
        ) from error
    except (LogError, UnreadableRecord) as error:
        raise UserError(
            f"the data in {data_dir} cannot be read ({error}): "
            "choose another --data-dir, or move that out of the way."
        ) from error
    except OSError as error:
        raise UserError(why_not_listening(error, listener, config.int("kohort.nodes"))) from error
    say_listening(broker, data_dir)
    # What is loaded by now stays: a full collection need not look at it again. Measured: without
    # this the collector takes a fifth of the time of a commit.
    gc.freeze()
    gc.set_threshold(COLLECT_ABOVE)
    memory.keep_freed()
    await stopping.wait()
    log.info("Shutting down")
    await broker.stop()
    if broker.is_folder_lost:
        raise UserError(
            f"{data_dir} was removed or moved while it was in use: stop the broker before you do "
            "that, or choose another --data-dir."
        )


def say_listening(broker: "Broker", data_dir: Path | None) -> None:
    """The line on standard output that programs wait for."""
    where = "in memory" if data_dir is None else str(data_dir)
    addresses = ",".join(starmap(address, broker.addresses.values()))
    print(
        f"kohort {__version__} listening on {addresses} "
        f"(data {where}, durability {broker.config.durability})",
        flush=True,
    )


def new_broker(config: BrokerConfig) -> "Broker":
    with hypothesis_hidden():
        from ..broker.broker import Broker

    return Broker(config, data_dir=config.data_dir, durability=config.durability)


@contextlib.contextmanager
def hypothesis_hidden() -> Iterator[None]:
    """kio registers strategies with Hypothesis where that is installed, as it is where people test.
    A broker has no use for them, and they cost it a quarter of its start."""
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = cast("ModuleType", None)  # importing it raises ImportError
    try:
        yield
    finally:
        del sys.modules["hypothesis"]


def check_folder(folder: Path) -> None:
    """See that the data folder, or what is there of the way to it, is a folder that can be written
    in; raises UserError. The broker makes it, once it has its port."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            reason = os.strerror(errno.ENOTDIR)
        else:
            reason = "" if os.access(there, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
    if reason:
        raise UserError(
            f"{folder} cannot be written ({reason}): "
            "choose a folder of yours with --data-dir, or --durability none."
        )


def why_not_listening(error: OSError, listener: Listener, nodes: int) -> str:
    """The sentence for a broker that could not start."""
    _, host, port = listener
    if error.errno == errno.EADDRINUSE:
        ports = f"port {port}" if nodes == 1 else f"one of the ports {port} to {port + nodes - 1}"
        return (
            f"{ports} on {host or 'this machine'} is in use: stop what listens there, "
            "or choose another --port (0: any free one)."
        )
    if error.errno == errno.EACCES and 0 < port < 1024:
        return f"port {port} is for privileged users only: choose a --port from 1024 on."
    # From Python 3.13 on asyncio tries all addresses of a name, and its last word has no number.
    if isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, None):
        return f"{host} is no address of this machine: choose another --host."
    return f"the broker cannot start ({error}): mend that, and start it again."
