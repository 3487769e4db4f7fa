"""The pytest plugin: the fixtures `kafka`, `async_kafka` and `kafka_cluster`, their options and
marker, and the reports of their brokers.

Options override the ini file, and the marker of a test overrides both:

    @pytest.mark.kafka(nodes=3, config={"group.max.size": 2})

The marker takes the arguments of Kafka(). pytest imports this module on startup, so it imports the
broker only when a test uses a fixture.
"""

import sys
import time
import warnings
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import pytest

from . import backend, tracebacks

if TYPE_CHECKING:
    from .aio import AsyncKafka
    from .client_checks import Finding
    from .kafka import Kafka
    from .loop_thread import LoopThread

K = TypeVar("K", bound="Kafka")


class ClientCheckWarning(UserWarning):
    """A finding of the client checks. The message begins with the kind of the finding, so that
    warning filters can select it: `ignore:slow heartbeat:kohort.testing.ClientCheckWarning`."""


# --- options and the marker

TEXT_OPTIONS: Final = {
    "preset": "configuration of test brokers: instant (default) or kafka (Kafka's defaults)",
    "profile": "Kafka release whose API versions are served: kafka-2.8, kafka-3.9 or kafka-4.x",
}
"""The options with text values: `--kafka-preset`, or `kafka_preset` in the ini file."""
MARKER: Final = (
    "kafka(nodes=1, preset=..., profile=..., config={...}): configuration of the test's brokers"
)
CLIENT_CHECKS: Final = ("warn", "error", "off")
CLIENT_CHECKS_HELP: Final = (
    "how client mistakes are reported: as warnings (default), as test failures, or not at all"
)
TIMELINE_HELP: Final = "write an HTML page with the timelines of all tests"
CLUSTER_HELP: Final = (
    f"run the tests on this real cluster (default: ${backend.VARIABLE}); tests that control the "
    "broker are skipped"
)
CONFIG_HELP: Final = "a Kafka configuration key and value for test brokers"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "test brokers (kohort)")
    for name, text in TEXT_OPTIONS.items():
        group.addoption(f"--kafka-{name}", help=text)
        parser.addini(f"kafka_{name}", text)
    group.addoption(
        "--kafka-config", action="append", default=[], metavar="KEY=VALUE", help=CONFIG_HELP
    )
    group.addoption(backend.OPTION, metavar="HOST:PORT", help=CLUSTER_HELP)
    group.addoption("--kafka-timeline", metavar="FILE.html", help=TIMELINE_HELP)
    parser.addini("kafka_timeline", TIMELINE_HELP)
    group.addoption("--kafka-client-checks", choices=CLIENT_CHECKS, help=CLIENT_CHECKS_HELP)
    parser.addini(
        "kafka_client_checks",
        f"{', '.join(CLIENT_CHECKS)}: {CLIENT_CHECKS_HELP}",
        default=CLIENT_CHECKS[0],
    )
    parser.addini("kafka_config", f"KEY=VALUE, one per line: {CONFIG_HELP}", type="linelist")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Exclude kohort from assertion rewriting. pytest rewrites all modules of a plugin's
    distribution, which makes the first import of kohort (in a container, every import) three times
    as slow. pytest's list of these modules is private; if it is missing, imports are slow, but
    work."""
    hook = early_config.pluginmanager.rewrite_hook
    getattr(hook, "_must_rewrite", set()).discard(__package__.partition(".")[0])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    check_options(config)
    backend.option = config.getoption("kafka_cluster")
    if hasattr(config, "workerinput"):  # in a worker of xdist
        return
    if (servers := backend.real_cluster()) is not None:
        where = backend.OPTION if backend.option else backend.VARIABLE
        if find_spec("kafka") is None:
            raise pytest.UsageError(f"{where} needs kafka-python: pip install 'kafka-python>=3'")
        if reason := backend.check_reachable(servers):
            raise pytest.UsageError(f"the cluster in {where} cannot be reached: {reason}")
    if (path := timeline_path(config)) is not None:
        from .timeline.page import TimelinePage

        if path.is_dir():
            raise pytest.UsageError(f"invalid timeline path {path}: expected a file, not a folder")
        config.pluginmanager.register(TimelinePage(path))


def pytest_unconfigure() -> None:
    backend.option = None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report how many tests ran on the real cluster, and which could not run there and why."""
    servers = backend.real_cluster()
    if servers is None:
        return
    counts = {
        kind: len([each for each in terminalreporter.stats.get(kind, ()) if each.when == "call"])
        for kind in ("passed", "failed")
    }
    tests: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith("the test uses "):  # skip() in real_cluster.py
            tests.setdefault(reason, []).append(report.nodeid)
    terminalreporter.section(f"the real cluster {servers}")
    ran = f"{counts['passed']} passed and {counts['failed']} failed"
    terminalreporter.line(f"{ran}; {sum(map(len, tests.values()))} need a kohort broker:")
    for reason, names in sorted(tests.items(), key=lambda item: -len(item[1])):
        terminalreporter.line(f"{len(names)} × {reason}")
        for name in names:
            terminalreporter.line(f"    {name}")


def check_options(config: pytest.Config) -> None:
    """Raise UsageError for invalid options, once for the whole run."""
    client_checks_mode(config)
    given = _option_arguments(config)
    if given == {"config": {}}:
        return  # do not import the broker if there is nothing to check
    from ..protocol.apis import NEWEST
    from .presets import new_config

    try:
        profile_option = "--kafka-profile" if config.getoption("kafka_profile") else "kafka_profile"
        origins = {"kohort.profile": profile_option}
        origins |= {key: origin for key, _, origin in _config_options(config)}
        preset, profile = given.get("preset", "instant"), given.get("profile", NEWEST)
        new_config(preset, 1, profile, given["config"], origins)
    except ValueError as error:
        raise pytest.UsageError(f"invalid configuration for test brokers: {error}") from error


def timeline_path(config: pytest.Config) -> Path | None:
    """Return the path of the timeline page; a path in the ini file is relative to that file's
    folder."""
    option, ini = config.getoption("kafka_timeline"), config.getini("kafka_timeline")
    if option:
        return Path(config.invocation_params.dir, option)
    return Path(config.rootpath, ini) if ini else None


def client_checks_mode(config: pytest.Config) -> str:
    mode = str(config.getoption("kafka_client_checks") or config.getini("kafka_client_checks"))
    if mode not in CLIENT_CHECKS:
        known = ", ".join(CLIENT_CHECKS)
        raise pytest.UsageError(f"invalid kafka_client_checks {mode!r}: expected one of {known}")
    return mode


def _arguments_for(item: pytest.Item, *, options: bool = True) -> dict[str, Any]:
    """Return the arguments for Kafka() from the options and the markers; without `options`, only
    those from the markers."""
    given = _option_arguments(item.config) if options else {}
    for marker in reversed(list(item.iter_markers("kafka"))):  # the closest marker takes precedence
        if marker.args:
            raise pytest.UsageError(f"{item.nodeid}: the marker kafka takes keyword arguments only")
        known = _marker_arguments()
        for name in marker.kwargs.keys() - set(known):
            from ..suggestions import did_you_mean

            hint = did_you_mean(name, known) or f": it has {', '.join(known)}"
            raise pytest.UsageError(f"{item.nodeid}: the marker kafka has no argument {name}{hint}")
        try:
            given = _merged(given, marker.kwargs)
        except TypeError as error:
            raise pytest.UsageError(f"{item.nodeid}: the marker kafka: {error}") from error
    return given


def _marker_arguments() -> list[str]:
    """Return the arguments of Kafka(), except for `loop`."""
    from inspect import signature

    from .kafka import Kafka

    return [name for name in signature(Kafka).parameters if name != "loop"]


def _merged(arguments: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    from ..broker.config.broker_config import BrokerConfig

    config, override = arguments.get("config") or {}, overrides.get("config") or {}
    if isinstance(override, BrokerConfig) or (override and isinstance(config, BrokerConfig)):
        config = override  # a BrokerConfig is complete, so it is not merged
    elif not isinstance(override, Mapping):
        raise TypeError(f"config is a {type(override).__name__}, not a dict")
    elif override:
        config = {**config, **override}
    return {**arguments, **overrides, "config": config}


def _option_arguments(config: pytest.Config) -> dict[str, Any]:
    given: dict[str, Any] = {"config": {key: value for key, value, _ in _config_options(config)}}
    for name in TEXT_OPTIONS:
        if value := config.getoption(f"kafka_{name}") or config.getini(f"kafka_{name}"):
            given[name] = value
    return given


def _config_options(config: pytest.Config) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and origin of each setting. Later settings override earlier ones."""
    options = {
        "kafka_config in the ini file": config.getini("kafka_config"),
        "--kafka-config": config.getoption("kafka_config"),
    }
    for origin, lines in options.items():
        for line in lines:
            key, equals, value = line.partition("=")
            if not equals:
                raise pytest.UsageError(f"invalid {line!r} (from {origin}): expected KEY=VALUE")
            yield key.strip(), value.strip(), origin


# --- fixtures

_BROKERS = pytest.StashKey[list["Kafka"]]()
"""The brokers that these fixtures started for the test."""
_BEGAN = pytest.StashKey[float]()
"""When the setup of a test started, by time.monotonic."""
_HAS_PASSED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def _kafka_loop() -> "Iterator[LoopThread]":
    from .loop_thread import LoopThread

    with LoopThread() as loop:
        yield loop


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _kafka_loop: "LoopThread") -> "Iterator[Kafka]":
    """A new broker for this test, on its own port, so that unclosed clients from other tests cannot
    reach it. With `--kafka-cluster` or KOHORT_TEST_BOOTSTRAP_SERVERS, it is a real cluster."""
    kafka = backend.kafka_for_test(loop=_kafka_loop, **_fixture_arguments(request))
    yield _start(request, kafka)
    _stop(request, kafka)


@pytest.fixture
def async_kafka(
    request: pytest.FixtureRequest, _kafka_loop: "LoopThread"
) -> "Iterator[AsyncKafka]":
    """A new broker for an async test. Its waits are coroutines, so consumers on the test's loop
    keep running. A test that also uses the fixture `kafka` gets two brokers."""
    kafka = backend.async_kafka_for_test(loop=_kafka_loop, **_fixture_arguments(request))
    yield _start(request, kafka)
    _stop(request, kafka)


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, _kafka_loop: "LoopThread"
) -> "Iterator[Callable[..., Kafka]]":
    """A function that creates and starts brokers: `kafka_cluster(nodes=3)`, with the arguments of
    Kafka(). The brokers are stopped at the end of the test."""
    from ..broker.config.broker_config import BrokerConfig

    defaults = _merged({"loop": _kafka_loop}, _fixture_arguments(request))
    with ExitStack() as closing:

        def create(**arguments: object) -> "Kafka":
            given = _merged(defaults, arguments)
            if not isinstance(given["config"], BrokerConfig):
                given = {"nodes": 3, **given}
            kafka = backend.kafka_for_test(**given)
            _start(request, kafka)
            closing.callback(_stop, request, kafka)
            return kafka

        yield _ClusterFactory(create)


class _ClusterFactory(partial["Kafka"]):
    """The value of `kafka_cluster`, which is easily mistaken for a broker."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"kafka_cluster has no attribute {name!r}: it is a function that starts a broker: "
            "kafka = kafka_cluster(nodes=3)"
        )


def _fixture_arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    return _arguments_for(request.node, options=backend.real_cluster() is None)


def _start(request: pytest.FixtureRequest, kafka: K) -> K:
    kafka.start()
    if backend.real_cluster() is None:
        request.node.stash.setdefault(_BROKERS, []).append(kafka)
    return kafka


def _stop(request: pytest.FixtureRequest, kafka: "Kafka") -> None:
    item = request.node
    try:
        # A failed test may not have had a chance to close its clients.
        if item.stash.get(_HAS_PASSED, False) and kafka in item.stash.get(_BROKERS, []):
            _check_clients(item, lambda: kafka.client_checks.left_open)
    finally:
        kafka.stop()
        # pytest keeps the items for the whole run, and a plugin that reruns a failed test reuses
        # the item, which must not refer to the broker of the first attempt.
        brokers = item.stash.get(_BROKERS, [])
        item.stash[_BROKERS] = [each for each in brokers if each is not kafka]


def _check_clients(item: pytest.Item, find: "Callable[[], list[Finding]]") -> None:
    mode = client_checks_mode(item.config)
    findings = find() if mode != "off" else []
    if mode == "error":
        from .client_checks import raise_findings

        raise_findings(findings)
    for each in findings:
        line = (item.location[1] or 0) + 1
        warnings.warn_explicit(str(each), ClientCheckWarning, str(item.path), line)


# --- a clone in the tests' folder


def _is_clone(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file() and (folder / "testing" / "plugin.py").is_file()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not collect kohort's own tests along with the user's."""
    return True if collection_path != config.rootpath and _is_clone(collection_path) else None


def pytest_report_header() -> str | None:
    """Report if a clone is imported instead of the installed package, which happens because `python
    -m pytest` adds the current folder to the path."""
    folder = Path(__file__).parents[1]
    if not _is_clone(folder):
        return None
    from importlib.metadata import distributions

    for each in distributions(name="kohort"):
        if '"editable": true' in (each.read_text("direct_url.json") or ""):
            return None
        installed = Path(str(each.locate_file("kohort")))
        if installed.is_dir() and installed.resolve() != folder:
            return (
                f"kohort: imported from the clone {folder}, which hides the installed {installed}: "
                "use `pytest` instead of `python -m pytest`, or move the clone"
            )
    return None


# --- hooks


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """After the test, check its waits, faults and clients."""
    # Faults that a fixture has set remain. A fault of the test must not affect the next test.
    shared = {each: each.faults.checked for each in _shared_brokers(item)}
    try:
        yield
        if aio := _aio():
            aio.check_awaited()
        own = item.stash.get(_BROKERS, [])
        _check_faults({**dict.fromkeys(own, ()), **shared})
    finally:
        for kafka, of_fixtures in shared.items():
            kafka.faults.clear(of_fixtures)
    for kafka in item.stash.get(_BROKERS, []):
        _check_clients(item, lambda kafka=kafka: kafka.client_checks.findings)  # type: ignore[misc]


def _check_faults(brokers: "Mapping[Kafka, Collection[Any]]") -> None:
    """Raise UnusedFault for the unused faults of these brokers. Each value contains the faults to
    ignore."""
    if not brokers:
        return
    from .faults.faults import UnusedFault

    unused = []
    for kafka, ignored in brokers.items():
        try:
            kafka.faults.check(ignored)
        except UnusedFault as error:
            unused.append(error)
    if unused:
        raise UnusedFault("\n".join(map(str, unused)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten the traceback of a failed test, and add the brokers' reports to its report. Draw each
    test for the timeline page."""
    location, is_message_only = None, False
    if call.excinfo is not None:
        location = tracebacks.skip_location(call.excinfo, item)
        if not item.config.option.fulltrace:
            is_message_only = tracebacks.shorten(call.excinfo)
    report = yield
    if location is not None and isinstance(report.longrepr, tuple):
        report.longrepr = (*location, report.longrepr[2])
    elif call.excinfo is not None and is_message_only and report.failed:
        report.longrepr = call.excinfo.getrepr(style="value", chain=False)
    if call.when == "call":
        item.stash[_HAS_PASSED] = report.passed
        if (aio := _aio()) and (missing := aio.take_not_awaited()):
            report.sections.append(("kafka", missing))
    has_run = call.when == "call" or (report.failed and call.when == "setup")
    if has_run and timeline_path(item.config) is not None:
        _draw(item, report)
    if report.failed and call.when != "teardown":  # at teardown, brokers may have been stopped
        failure = ""
        if call.excinfo is not None and tracebacks.is_barrier_timeout(call.excinfo):
            failure = str(call.excinfo.value)
        for kafka, since_s in _brokers_of(item):
            from .kafka import report as report_of  # imported only if the test has a broker

            if text := report_of(kafka, since_s, failure):
                report.sections.append(("kafka", text))
    return report


def _aio() -> Any:
    """Return the module of AsyncKafka; None if no test has used it."""
    return sys.modules.get(f"{__package__}.aio")


def _shared_brokers(item: pytest.Item) -> "list[Kafka]":
    """Return the brokers of the user's fixtures, which may be session-scoped. Such a fixture
    returns the broker, its container or its address."""
    values = [each for each in (getattr(item, "funcargs", None) or {}).values() if each is not None]
    own = item.stash.get(_BROKERS, [])
    return [
        each
        for each in _running()
        if each not in own
        and any(
            value is each
            or getattr(value, "_kafka", None) is each
            or (isinstance(value, str) and value == each.bootstrap_servers)
            for value in values
        )
    ]


def _running() -> "list[Kafka]":
    """Return all started brokers, without importing the broker."""
    module = sys.modules.get(f"{__package__}.kafka")
    return [] if module is None or backend.real_cluster() is not None else list(module.running)


def _brokers_of(item: pytest.Item) -> "Iterator[tuple[Kafka, float]]":
    """Yield each broker of the test, with the time in its history at which the test started. These
    are the brokers of its fixtures, and all brokers that a client has contacted since then."""
    own, shared = item.stash.get(_BROKERS, []), _shared_brokers(item)
    for kafka in own:
        yield kafka, 0.0
    for kafka in (each for each in _running() if each not in own):
        elapsed_s = time.monotonic() - item.stash[_BEGAN]
        since_s = max(kafka.history.wall_s - elapsed_s, 0.0)
        if kafka in shared or kafka.history.has_client_since(since_s):
            yield kafka, since_s


def _draw(item: pytest.Item, report: pytest.TestReport) -> None:
    for kafka, since_s in _brokers_of(item):
        from .timeline.drawing import draw
        from .timeline.page import REPORT_ATTRIBUTE

        before = getattr(report, REPORT_ATTRIBUTE, "")
        setattr(report, REPORT_ATTRIBUTE, before + draw(kafka.history, since_s))
