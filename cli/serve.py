"""`kohort serve`: load the configuration, run a broker until a signal arrives, stop it cleanly."""

import argparse
import asyncio
import errno
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import __version__
from ..broker.config.broker_config import BrokerConfig
from ..broker.config.keys import BROKER_KEYS, STANDARD_AUTHORIZER
from ..broker.config.listeners import Listener, SecurityProtocol
from ..broker.config.sources import ConfigError
from ..broker.config.users import format_users
from ..broker.security.principal import user
from ..log.errors import FolderInUse, LogError
from ..topics.registry_log import CorruptRegistry, UndecodableRegistryRecord
from .errors import UserError
from .imports import hypothesis_hidden
from .logs import logging_to_stderr
from .signals import stop_signals

if TYPE_CHECKING:
    from ..broker.broker import Broker

log = logging.getLogger("kohort.serve")

# With Python 3.11's threshold of 700 new objects, garbage collection takes 2 % of the time of
# pipelined commits, and 7 % of a rebalance of a thousand members. Pending requests hold fewer than
# 10,000 objects, and reference counting frees them. A collection of the second generation (up to
# 20,000 objects) takes 4 ms. With Python's default of every tenth collection, it would take 25 ms.
GC_THRESHOLDS: Final = (10_000, 1)
# A full collection takes 100 ms per million objects, in one event loop callback.
# It frees little, because requests leave no reference cycles. It runs at this interval. Afterwards,
# the remaining objects are frozen (gc.freeze), so that later collections skip them.
FULL_COLLECTION_SECONDS: Final = 600
# A threshold that is never reached.
NEVER: Final = 2**31 - 1
# While a thread decodes or encodes a long request, the event loop waits up to this long for the GIL
# after each wait for sockets. With Python's default of 5 ms, the slowest of 450 small requests took
# 13 to 69 ms alongside a busy thread; with this value, 3 to 8 ms.
SWITCH_SECONDS: Final = 0.000_5

MIB: Final = 1024 * 1024
# malloc.h
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
# A consumer of four busy partitions fetches 4 MiB (max.partition.fetch.bytes is 1 MiB by default).
# The trim threshold covers such a response and the buffers that it is joined from.
MALLOC_MMAP_BYTES: Final = 8 * MIB
MALLOC_TRIM_BYTES: Final = 16 * MIB
GLIBC_VARIABLES: Final = ("GLIBC_TUNABLES", "MALLOC_")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP. Raises UserError."""
    config = load_config(args)
    if args.print_config:
        print_config(config)
        for warning in config.warnings():
            print(f"kohort serve: {warning}", file=sys.stderr)
        return 0
    if args.control_host or args.control_preset or args.control_token is not None:
        raise UserError("--control-host, --control-token and --control-preset need --control-port.")
    with (
        logging_to_stderr(args, config),
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        runner.run(serve(config))
    return 0


# --- configuration


def load_config(args: argparse.Namespace) -> BrokerConfig:
    """Return the configuration from flags, environment and file. Raises UserError."""
    if args.data_dir is not None and not args.data_dir.strip():
        raise UserError("--data-dir is empty: name a folder, or omit the flag.")
    try:
        config = BrokerConfig.load(args.config, os.environ, args.override)
        for key, value, flag in (
            ("kohort.durability", args.durability, "--durability"),
            ("kohort.events", args.events, "--events"),
            ("log.dirs", args.data_dir, "--data-dir"),
            ("kohort.cache.offsets", args.cache_offsets, "--cache-offsets"),
            ("kohort.nodes", args.nodes, "--nodes"),
            ("kohort.profile", args.profile, "--profile"),
            ("listeners", *listeners_from(args, config.listeners)),
            ("kohort.users", users_from(args), "--user"),
            *super_users_from(args),
        ):
            if value is not None:
                config = config.changed(key, value, flag)
    except ConfigError as error:
        raise UserError(str(error)) from error
    unknown = () if args.allow_unknown_config else config.unknown_keys(in_environment=False)
    for problem in unknown:
        raise UserError(f"{problem} --allow-unknown-config ignores unknown keys.")
    return config


def listeners_from(
    args: argparse.Namespace, configured: Sequence[Listener]
) -> tuple[str | None, str]:
    """Return the value of `listeners` in which flags have changed the first listener, and these
    flags. Without such flags, the value is None."""
    first, *rest = configured
    given = (("--host", args.host), ("--port", args.port), ("--security", args.security))
    flags = " ".join(flag for flag, value in given if value is not None)
    host = first.host if args.host is None else args.host
    port = str(first.port if args.port is None else args.port)
    if not is_port(port):
        raise UserError(f"invalid --port {port}: expected 0 to 65535 (0: any free port).")
    name = first.name
    if args.security is not None:
        name = args.security.upper()
        if name not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol)
            raise UserError(f"invalid --security {args.security}: expected one of {known}.")
    listeners = (first._replace(name=name, host=host, port=int(port)), *rest)
    endpoints = (f"{each.name}://{_address(each.host, each.port)}" for each in listeners)
    return ",".join(endpoints) if flags else None, flags


def is_port(text: str) -> bool:
    # int() refuses to convert texts of more than 4,300 digits.
    return text.isdecimal() and len(text) <= 5 and int(text) <= 65535


def users_from(args: argparse.Namespace) -> str | None:
    """Return the value of `kohort.users`, or None without --user."""
    users: dict[str, str] = {}
    for given in args.user or ():
        name, colon, password = given.partition(":")
        if not (name and colon and password):
            # The message omits the value, which may be a password.
            raise UserError("invalid --user: expected NAME:PASSWORD.")
        if name in users:
            raise UserError(f"two --user flags have the name {name}: expected one.")
        users[name] = password
    protocol = SecurityProtocol((args.security or "PLAINTEXT").upper())
    if users and not protocol.uses_sasl:
        raise UserError("--user needs --security SASL_SSL or SASL_PLAINTEXT.")
    return format_users(users) if users else None


def super_users_from(args: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """Yield (key, value, flag) of the settings that configure super users. Yield nothing if there
    are none."""
    if args.super_user:
        principals = ";".join(str(user(name)) for name in args.super_user)
        yield "authorizer.class.name", STANDARD_AUTHORIZER, "--super-user"
        yield "super.users", principals, "--super-user"


def print_config(config: BrokerConfig) -> None:
    for key in sorted(BROKER_KEYS):
        value = config.text(key)
        print(f"{key}={'' if value is None else value}  ({config.origin(key)})")


# --- the broker


async def serve(config: BrokerConfig) -> None:
    """Start a broker, wait for a signal, and stop it. Raises UserError."""
    if sys.platform == "win32":  # asyncio has no signal handlers on Windows
        raise UserError(
            "the broker needs Linux or macOS: run it in WSL. Test brokers run on Windows."
        )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stopping.set)
    data_dir = config.data_dir
    if data_dir is not None:
        check_writable(data_dir)
    with hypothesis_hidden():
        from ..broker.broker import Broker
    broker = Broker(config, data_dir=data_dir, durability=config.durability)
    broker.on_folder_lost = stopping.set
    try:
        await broker.start()
    except (ConfigError, FolderInUse) as error:
        raise UserError(str(error)) from error
    except CorruptRegistry as error:
        raise UserError(
            f"the data in {data_dir} cannot be read ({error}): "
            f"run `kohort log repair {data_dir}`, which keeps the valid part, or choose another "
            "--data-dir."
        ) from error
    except (LogError, UndecodableRegistryRecord) as error:
        raise UserError(
            f"the data in {data_dir} cannot be read ({error}): "
            "choose another --data-dir, or move that folder away."
        ) from error
    except (OSError, UnicodeError) as error:
        raise UserError(start_error(error, config.listeners, config.int("kohort.nodes"))) from error
    try:
        print_listening(broker, data_dir)
        log_listeners(broker)
        collect_garbage_rarely(loop)
        keep_freed_memory()
        sys.setswitchinterval(SWITCH_SECONDS)
        await stopping.wait()
    finally:
        log.info("Shutting down")
        await broker.stop()
        log.info("Event loop: %s", broker.callback_times)
    if broker.is_folder_lost:
        raise UserError(
            f"{data_dir} was removed or moved while the broker was using it: stop the broker "
            "first, or choose another --data-dir."
        )


def print_listening(broker: "Broker", data_dir: Path | None) -> None:
    """Print the line that programs wait for before they connect."""
    where = "in memory" if data_dir is None else str(data_dir)
    addresses = ",".join(starmap(_address, broker.addresses.values()))
    print(
        f"kohort {__version__} listening on {addresses} "
        f"(data {where}, durability {broker.config.durability})",
        flush=True,
    )


def log_listeners(broker: "Broker") -> None:
    """Log the addresses of several listeners in Kafka's wording, because the first line contains
    only the address of the first listener. Also log the certificate that clients must trust."""
    if len(broker.config.listeners) > 1:
        for addresses in broker.listener_addresses.values():
            for name, (host, port) in addresses.items():
                log.info("Awaiting socket connections on %s (%s).", _address(host, port), name)
    for ca_file in {each.ca_file for each in broker.tls.values()} - {None}:
        log.info("Clients must trust %s", ca_file)


def check_writable(folder: Path) -> None:
    """Raise UserError unless the data folder, or its nearest existing parent, is a writable folder.
    The broker creates the data folder after it has bound its port."""
    if "\0" in str(folder):
        raise UserError(f"{folder} contains a NUL character: choose another --data-dir.")
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir():
            reason = os.strerror(errno.ENOTDIR)
        else:
            reason = "" if os.access(existing, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
    if reason:
        raise UserError(_not_writable(folder, reason))


def _not_writable(folder: Path, reason: str) -> str:
    return f"{folder} is not writable ({reason}): choose another --data-dir, or --durability none."


def start_error(error: OSError | UnicodeError, listeners: Sequence[Listener], nodes: int) -> str:
    """Return the message for a broker that could not start."""
    _, host, port, _ = listeners[0]
    if isinstance(error, UnicodeError):  # from the encoding of a host, such as `a..b`
        hosts = ", ".join(dict.fromkeys(each.host for each in listeners))
        return f"{hosts} is not a valid address: choose another --host."
    # check_writable does not find every problem: for root, os.access reports that a folder below
    # /proc is writable.
    if error.filename is not None:
        return _not_writable(Path(error.filename), error.strerror or str(error))
    if error.errno == errno.EADDRINUSE:
        if len(listeners) > 1:
            endpoints = ", ".join(_address(each.host, each.port) for each in listeners)
            ports = f"one of the addresses {endpoints} is"
        elif nodes == 1:
            ports = f"port {port} on {host or 'this machine'} is"
        else:
            ports = f"one of the ports {port} to {port + nodes - 1} on {host or 'this machine'} is"
        return (
            f"{ports} already in use: stop the process that listens there, "
            "or choose another --port (0: any free port)."
        )
    if error.errno == errno.EACCES and 0 < port < 1024:
        return f"port {port} needs root privileges: choose a --port of 1024 or above."
    # Python 3.13 tries all addresses of a host name, and its error then has no errno.
    if isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, None):
        return f"{host} is not an address of this machine: choose another --host."
    return f"the broker cannot start: {error}"


# --- speed


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop factory if uvloop is installed (extra `speed`), else None (asyncio)."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


def _address(host: str, port: int | str) -> str:
    with hypothesis_hidden():
        from ..protocol.framing import address

    return address(host, port)


def collect_garbage_rarely(loop: asyncio.AbstractEventLoop) -> None:
    """Collect reference cycles without noticeable delays for clients."""
    # Otherwise, a fifth of a commit's time would be spent scanning objects that live as long as the
    # process.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS, NEVER)

    def collect() -> None:
        gc.collect()
        gc.freeze()
        loop.call_later(FULL_COLLECTION_SECONDS, collect)

    loop.call_later(FULL_COLLECTION_SECONDS, collect)


def keep_freed_memory() -> None:
    """Raise glibc's thresholds for returning freed memory to the system.

    By default, glibc trims the heap above 128 KiB, so each large response gets its memory from the
    system again, and page faults take half of the CPU time of a fetch. Does nothing with another C
    library (macOS, musl) or if the environment configures malloc."""
    import ctypes  # slow to import, and not needed before the broker listens

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name.startswith(GLIBC_VARIABLES) for name in os.environ):
        return
    mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES)
    mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_BYTES)
