"""`kohort conformance`: play scenarios on a broker, and print the differences from Kafka."""

import argparse
import asyncio
import re
import secrets
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from shlex import quote

from ..client_security import read_security
from ..conformance.broker import RemoteBroker, Unusable
from ..conformance.conformance import Outcome, Result, compare
from ..conformance.recordings import needs
from ..conformance.report import FORMATS, remedy
from ..conformance.scenario import AREAS, Scenario, load
from ..conformance.settings import DEFAULTS, SETTINGS, Settings, properties
from ..conformance.snapshot import restored
from ..conformance.wire import UnsupportedVersion
from ..protocol.bootstrap import Address, addresses
from ..suggestions import did_you_mean
from .errors import EXIT_NEGATIVE, UserError
from .output import StatusLine


def run(args: argparse.Namespace) -> int:
    """Return 0 if no response differs, else 1. Raises UserError."""
    if args.print_settings is not None:
        print(properties(args.print_settings), end="")
        return 0
    scenarios = _selected(args)
    if args.list:
        for scenario in scenarios:
            print(_line(scenario))
        return 0
    if args.bootstrap_server is None:
        args.parser.error("--bootstrap-server is required")
    results = asyncio.run(_compare(args, scenarios))
    for line in FORMATS[args.format](results, args.bootstrap_server):
        print(line)
    return EXIT_NEGATIVE if any(each.outcome is Outcome.DIFFERS for each in results) else 0


def _selected(args: argparse.Namespace) -> list[Scenario]:
    scenarios = list(load().values())
    for pattern in args.only:
        if not any(_matches(each, pattern) for each in scenarios):
            modules = dict.fromkeys(each.part for each in scenarios)
            hint = did_you_mean(pattern, [*modules, *AREAS.values()])
            hint = hint or did_you_mean(pattern, [each.name for each in scenarios])
            raise UserError(f"no scenario matches --only {quote(pattern)}{hint or ': see --list.'}")
    selected = [
        each
        for each in scenarios
        if (not args.only or any(_matches(each, pattern) for pattern in args.only))
        and args.settings in (None, each.settings)
    ]
    if not selected:
        only = " or ".join(f"--only {quote(pattern)}" for pattern in args.only)
        raise UserError(f"no scenario of --settings {args.settings} matches {only}: see --list.")
    return selected


def _matches(scenario: Scenario, pattern: str) -> bool:
    part, name = scenario.part, scenario.name
    names = (name, part, f"{part}.{name}", scenario.area)
    return any(fnmatchcase(name, pattern) for name in names)


def _line(scenario: Scenario) -> str:
    needed = ", ".join(sorted(needs(scenario))) or "none of its settings"
    recorded = f"recorded with {scenario.settings}; needs {needed}"
    return f"{scenario.part}.{scenario.name}: {scenario.rule} [{recorded}]"


async def _compare(args: argparse.Namespace, scenarios: Sequence[Scenario]) -> list[Result]:
    where = _address(args.bootstrap_server)
    users = args.sasl_bootstrap_server
    assumed = dict(map(_pair, args.assume))
    status = StatusLine()
    try:
        broker = RemoteBroker(
            *where,
            security=read_security(args.command_config),
            users=None if users is None else _address(users),
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    try:
        await broker.inspect()
        await broker.check_topics()
        _warn(assumed, broker.settings)
        run = f"{secrets.token_hex(3)}."
        async with restored(broker, run, _report_unrestored):
            try:
                await broker.prepare()
                results = await compare(
                    broker,
                    scenarios,
                    run,
                    unreported=SETTINGS.get(args.settings, {}),
                    assumed=assumed,
                    strict=args.strict,
                    on_progress=lambda played, total: status.show(f"{played} of {total} scenarios"),
                )
            except asyncio.CancelledError:  # Ctrl-C
                status.clear()
                _print_error("interrupted: restoring the broker ...")
                raise
    except Unusable as reason:
        raise UserError(f"{where} cannot be used: {reason}.") from None
    except UnsupportedVersion as request:
        raise UserError(f"{where} cannot be used: it does not support {request}.") from None
    except TimeoutError:
        raise UserError(f"{where} did not respond in time.") from None
    except ConnectionRefusedError:  # asyncio's message repeats the address
        raise UserError(f"cannot connect to {where}: connection refused.") from None
    except OSError as error:
        raise UserError(f"cannot connect to {where}: {error.strerror or error}.") from None
    finally:
        status.clear()
    if all(each.outcome is Outcome.SKIPPED for each in results):
        text = f"no scenario can be played on {where}: the first one needs {results[0].detail}."
        raise UserError(" ".join(filter(None, (text, remedy(results)))))
    return results


def _address(text: str) -> Address:
    try:
        found = addresses(text)
    except ValueError as error:
        raise UserError(f"{error}.") from None
    if len(found) > 1:
        raise UserError(f"{len(found)} addresses in {text!r}: expected one, HOST:PORT.")
    return Address(found[0].host or "127.0.0.1", found[0].port)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"invalid --assume {text}: expected KEY=VALUE.")
    if key not in DEFAULTS:
        hint = did_you_mean(key, DEFAULTS)
        raise UserError(
            f"invalid --assume {text}: no scenario needs {key}{hint or ': see --list.'}"
        )
    if (DEFAULTS[key] or "").isdecimal() and not re.fullmatch(r"-?[0-9]+", value):
        raise UserError(f"invalid --assume {text}: expected a number.")
    return key, value


def _warn(assumed: Settings, reported: Settings) -> None:
    for key, value in assumed.items():
        if key in reported and (reported[key] or "") != value:
            has = f"reports {reported[key]}" if reported[key] else "reports that it is not set"
            _print_error(f"--assume {key}={value}: the broker {has}.")


def _report_unrestored(what: str) -> None:
    _print_error(f"not restored: {what}")


def _print_error(text: str) -> None:
    print(f"kohort conformance: {text}", file=sys.stderr, flush=True)
