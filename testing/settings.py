"""How the brokers of a test are set up: the options of the command line win over the ini file, and
the marker of the test over both.

    @pytest.mark.kafka(nodes=3, config={"group.max.size": 2})

takes what Kafka() takes. Imports nothing of the broker: pytest starts with it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from . import where

PLAIN: Final = {
    "preset": "how the brokers of tests are set up: instant (the default), or kafka: its own times",
    "profile": "the Kafka whose versions of APIs they serve: kafka-2.8, kafka-3.9 or kafka-4.x",
}
"""What is one word: `--kafka-preset`, `kafka_preset` in the ini file."""
ARGUMENTS: Final = (
    "nodes",
    "preset",
    "profile",
    "config",
    "evict_disconnected",
    "durability",
    "host",
    "port",
)
"""What the marker takes: the arguments of Kafka(), but for its loop."""
DOCTOR: Final = ("warn", "error", "off")
DOCTOR_HELP: Final = (
    "what comes of what consumers do wrong: a warning (the default), a failure of "
    "the test, or nothing"
)
TIMELINE_HELP: Final = "draw what happened in the brokers of all tests"
CONFIG_HELP: Final = "one of Kafka's broker settings for the brokers of tests"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "brokers of tests (kohort)")
    for name, what in PLAIN.items():
        group.addoption(f"--kafka-{name}", help=what)
        parser.addini(f"kafka_{name}", what)
    group.addoption(
        "--kafka-config", action="append", default=[], metavar="KEY=VALUE", help=CONFIG_HELP
    )
    group.addoption("--kafka-timeline", metavar="FILE.html", help=TIMELINE_HELP)
    parser.addini("kafka_timeline", TIMELINE_HELP)
    group.addoption("--kafka-doctor", choices=DOCTOR, help=DOCTOR_HELP)
    parser.addini("kafka_doctor", f"{', '.join(DOCTOR)}: {DOCTOR_HELP}", default=DOCTOR[0])
    parser.addini("kafka_config", f"KEY=VALUE, each on a line: {CONFIG_HELP}", type="linelist")


def add_marker(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(nodes=1, preset=..., profile=..., config={...}): how its brokers are set up",
    )


def check_options(config: pytest.Config) -> None:
    """Raises UsageError for what no broker could be made of: once, not for each test."""
    doctor_of(config)
    given = _of_options(config)
    if given == {"config": {}}:
        return  # and nothing of the broker is imported
    from ..protocol.apis import NEWEST
    from .presets import new_config, with_preset

    try:
        made = new_config(1, given.get("profile", NEWEST), given["config"])
        with_preset(made, given.get("preset", "instant"))
    except ValueError as error:
        raise pytest.UsageError(f"the brokers of tests cannot be set up: {error}") from error


def settings_of(item: pytest.Item, *, options: bool = True) -> dict[str, Any]:
    """The arguments of Kafka(), without those that nobody has given; without `options` those of
    the marker alone."""
    given = _of_options(item.config) if options else {}
    for marker in reversed(list(item.iter_markers("kafka"))):  # the nearest wins
        if marker.args:
            raise pytest.UsageError(f"{item.nodeid}: the marker kafka takes named arguments only")
        for name in marker.kwargs.keys() - set(ARGUMENTS):
            raise pytest.UsageError(f"{item.nodeid}: the marker kafka has no {_unknown(name)}")
        given = merged(given, marker.kwargs)
    return given


def timeline_of(config: pytest.Config) -> Path | None:
    """Where it is to be written; of the ini file: from the folder of that."""
    option, said = config.getoption("kafka_timeline"), config.getini("kafka_timeline")
    if option:
        return Path(config.invocation_params.dir, option)
    return Path(config.rootpath, said) if said else None


def doctor_of(config: pytest.Config) -> str:
    said = str(config.getoption("kafka_doctor") or config.getini("kafka_doctor"))
    if said not in DOCTOR:
        raise pytest.UsageError(f"kafka_doctor is {said!r}, not one of {', '.join(DOCTOR)}")
    return said


def place_of_skip(
    raised: pytest.ExceptionInfo[BaseException], item: pytest.Item
) -> tuple[str, int] | None:
    """Where the test has asked for what where.skip tells of, or else where it begins; None: it was
    something else that was raised. pytest would show a line of its own for a SkipTest."""
    if Path(raised.traceback[-1].path) != Path(where.__file__):
        return None
    for entry in reversed(raised.traceback):
        path = Path(entry.path)
        is_ours = path.is_relative_to(Path(where.__file__).parent) or "site-packages" in path.parts
        if not is_ours and path.is_relative_to(item.config.rootpath):
            return str(path), entry.lineno + 1
    return str(item.path), (item.location[1] or 0) + 1


def merged(settings: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Both; of Kafka's settings those that only the weaker names stay."""
    config = {**settings.get("config", {}), **(stronger.get("config") or {})}
    return {**settings, **stronger, "config": config}


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, ARGUMENTS, n=1)
    return (
        f"{name}: did you mean {near[0]}?" if near else f"{name}; there is: {', '.join(ARGUMENTS)}"
    )


def _of_options(config: pytest.Config) -> dict[str, Any]:
    given: dict[str, Any] = {"config": _config(config)}
    for name in PLAIN:
        if said := config.getoption(f"kafka_{name}") or config.getini(f"kafka_{name}"):
            given[name] = said
    return given


def _config(config: pytest.Config) -> dict[str, str]:
    pairs = {}
    for line in (*config.getini("kafka_config"), *config.getoption("kafka_config")):
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"kafka config {line!r}: say KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
