"""`kohort check`: checks whether a broker keeps Kafka's guarantees under load."""

import argparse
import asyncio
import json
import logging
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkstemp
from typing import Final, Literal, NamedTuple, TextIO

from ..check.analysis import analyze
from ..check.cluster import FINAL
from ..check.recorder import History
from ..check.report import Report
from ..check.run import CannotJudge, clean_up
from ..check.run import run as run_clients
from ..check.targets import (
    OWN_NEMESES,
    OWN_SESSION_TIMEOUT_MS,
    PROCESS_NEMESES,
    BrokerEnded,
    Disturb,
    OwnBroker,
    Process,
)
from ..check.timeline import draw
from ..check.workload import Options, groups
from ..client_security import Security, read_security
from ..printable import shortened
from ..protocol.bootstrap import Address, addresses
from ..suggestions import did_you_mean
from .errors import EXIT_NEGATIVE, UserError
from .output import StatusLine

SESSION_TIMEOUT_MS: Final = 6000
"""The default of Kafka's group.min.session.timeout.ms."""
SESSION_TIMEOUT_MS_MAX: Final = 2**31 - 1  # int32 in Kafka's protocol
START_SECONDS: Final = 10.0
"""How long to wait until the broker responds and has created the topic."""
STATUS_SECONDS: Final = 0.5
LAST_BYTES: Final = 4096
"""The number of bytes read from the end of a command's output to find the last line."""
SEED_BITS: Final = 31
NONE: Final = "none"


def run(args: argparse.Namespace) -> int:
    """Return the exit code. Raises UserError."""
    # Flags are validated before the run, because a run may take an hour.
    _validate(args)
    nemeses, security = _chosen(args), _security(args)
    if args.timeline is not None:
        _open(args.timeline, "a").close()
    with _target(args) as target:
        report = _check(args, target, nemeses, security)
    if report.is_ok and target.output is not None:
        target.output.unlink(missing_ok=True)
    if report.history.operations:
        print(json.dumps(report.to_json()) if args.format == "json" else report.to_text())
    if args.timeline is not None:
        title = f"kohort check of {target.name}, seed {report.seed}"
        with _open(args.timeline, "w") as file:
            file.write(draw(report.history, report.findings, title))
        print(f"The timeline is in {args.timeline}.", file=sys.stderr)
    if report.findings:
        return EXIT_NEGATIVE
    if report.problem:
        raise UserError(f"no verdict on {target.name}: {report.problem}.")
    return 0


def _validate(args: argparse.Namespace) -> None:
    value = args.session_timeout
    if value is not None and not 0 < value <= SESSION_TIMEOUT_MS_MAX:
        raise UserError(
            f"invalid --session-timeout {value}: expected 1 to {SESSION_TIMEOUT_MS_MAX} ms."
        )
    if args.bootstrap_server is None and args.broker_command is not None:
        raise UserError("--command needs --bootstrap-server, the address of the broker it starts.")
    try:
        is_empty = args.broker_command is not None and not shlex.split(args.broker_command)
    except ValueError as error:
        raise UserError(f"invalid --command {args.broker_command}: {error}.") from error
    if is_empty:
        raise UserError("--command is empty: expected the command that starts the broker.")
    if args.bootstrap_server is None and args.command_config is not None:
        raise UserError(
            "--command-config needs --bootstrap-server: the built-in cluster has no users."
        )
    if args.timeline is not None and not args.timeline.endswith(".svg"):
        raise UserError(f"invalid --timeline {args.timeline}: expected a name ending in .svg.")


class _Target(NamedTuple):
    """The broker to check: a name for messages, its addresses, and the available disturbances.
    `check_running` raises BrokerEnded if the broker's process is known to have ended. `output` is
    the file with the output of the command that started the broker."""

    name: str
    bootstrap: list[Address]
    nemeses: Mapping[str, Disturb]
    check_running: Callable[[], None] = lambda: None
    output: Path | None = None


def _check(
    args: argparse.Namespace, target: _Target, chosen: Sequence[str], security: Security
) -> Report:
    nemeses = {name: target.nemeses[name] for name in chosen}
    seed = secrets.randbits(SEED_BITS) if args.seed is None else args.seed
    session_timeout_ms = args.session_timeout
    if session_timeout_ms is None:
        is_own = args.bootstrap_server is None
        session_timeout_ms = OWN_SESSION_TIMEOUT_MS if is_own else SESSION_TIMEOUT_MS
    history = History()
    options = Options(
        target.bootstrap, security, args.seconds, seed, START_SECONDS, session_timeout_ms
    )
    status = StatusLine()
    with _print_remaining_on_interrupt(args, history, status):
        problem = ""
        try:
            asyncio.run(_run(options, nemeses, history, status))
            target.check_running()
        except (BrokerEnded, CannotJudge) as error:
            problem = str(error)
        # After a failed run, the final reads are incomplete, so a missing record proves nothing.
        operations = [each for each in history if not problem or each.client != FINAL]
        seconds = history.seconds or args.seconds
        status.show(f"analysis of {len(operations)} operations")
        findings = analyze(operations)
        status.clear()
        report = Report(
            target.name, seed, seconds, history, findings, problem, seconds_wanted=args.seconds
        )
        if report.is_ok:
            asyncio.run(clean_up(options, history))
        elif target.output is not None and _has_content(target.output):
            report = replace(report, output=target.output)
    return report


@contextmanager
def _print_remaining_on_interrupt(
    args: argparse.Namespace, history: History, status: StatusLine
) -> Iterator[None]:
    """Print the topic and the groups that remain if the user ends the program."""
    try:
        yield
    except KeyboardInterrupt:
        status.clear()
        if history.topic and args.bootstrap_server is not None:
            ids = " and ".join(groups(history.topic).values())
            print(f"The topic {history.topic} and the groups {ids} are kept.", file=sys.stderr)
        raise


async def _run(
    options: Options, nemeses: Mapping[str, Disturb], history: History, status: StatusLine
) -> None:
    showing = asyncio.create_task(_show(history, options.seconds, status))
    try:
        await run_clients(options, nemeses, history)
    finally:
        showing.cancel()


async def _show(history: History, seconds: float, status: StatusLine) -> None:
    """Show the progress of the run until this task is cancelled."""
    began = time.monotonic()
    while True:
        elapsed = min(time.monotonic() - began, seconds)
        phase = f"{elapsed:.0f} of {seconds:g} s"
        if history.seconds:
            phase = "final reads"
        elif history.is_interrupted:
            phase = "stopping"
        status.show(f"{phase}, {len(history.operations)} operations")
        await asyncio.sleep(STATUS_SECONDS)


def _security(args: argparse.Namespace) -> Security:
    try:
        return read_security(args.command_config)
    except ValueError as error:
        raise UserError(str(error)) from None


@contextmanager
def _target(args: argparse.Namespace) -> Iterator[_Target]:
    if args.bootstrap_server is None:
        # Without a handler, Python would print every failure that the nemesis causes.
        logging.getLogger("kohort").addHandler(logging.NullHandler())
        with OwnBroker() as own:
            yield _Target("the built-in kohort cluster", addresses(own.bootstrap), own.nemeses)
        return
    try:
        bootstrap = addresses(args.bootstrap_server)
    except ValueError as error:
        raise UserError(f"{error}.") from None
    if args.broker_command is None:
        yield _Target(args.bootstrap_server, bootstrap, {})
        return
    number, file = mkstemp(prefix="kohort-check-", suffix=".log")
    os.close(number)
    output, status = Path(file), StatusLine()

    def show_waiting(seconds: float) -> None:
        status.show(f"waiting for the command to listen at {bootstrap[0]}, {seconds:.0f} s")

    try:
        with Process(args.broker_command, bootstrap[0], output, show_waiting) as process:
            status.clear()
            name = args.bootstrap_server
            yield _Target(name, bootstrap, process.nemeses, process.check_running, output)
    except BrokerEnded as error:
        status.clear()
        text = f"no verdict on {args.bootstrap_server}: {error}."
        if last := _last_line(output):
            text += f" Its output is in {output}; the last line is: {last}"
        raise UserError(text) from error
    except OSError as error:
        raise UserError(f"cannot run {args.broker_command!r}: {error.strerror}.") from error
    finally:
        status.clear()
        if not _has_content(output):
            output.unlink(missing_ok=True)


def _last_line(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - LAST_BYTES))
        lines = opened.read().decode("utf-8", "backslashreplace").strip().splitlines()
    return shortened(lines[-1]) if lines else ""


def _has_content(file: Path) -> bool:
    """Return whether the file exists and is not empty."""
    return file.exists() and file.stat().st_size > 0


def _chosen(args: argparse.Namespace) -> Sequence[str]:
    """Return the nemeses that the user chose. Raises UserError."""
    nemeses: Sequence[str] = ()
    if args.bootstrap_server is None:
        nemeses = OWN_NEMESES
    elif args.broker_command is not None:
        nemeses = PROCESS_NEMESES
    if args.nemesis == NONE:
        return ()
    chosen = sorted(nemeses) if args.nemesis is None else args.nemesis.split(",")
    for name in chosen:
        if name not in nemeses:
            if name in PROCESS_NEMESES:
                raise UserError(f"--nemesis {name} needs --command, which starts the broker.")
            known = ", ".join(nemeses) or "none without --command"
            hint = did_you_mean(name, nemeses) or f": this broker has {known}."
            raise UserError(f"unknown --nemesis {name}{hint}")
    return chosen


def _open(path: str, mode: Literal["a", "w"]) -> TextIO:
    try:
        return Path(path).open(mode, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}.") from error
