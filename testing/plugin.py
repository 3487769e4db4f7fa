"""The pytest plugin: the fixtures `kafka`, `async_kafka` and `kafka_cluster`. Nothing of the broker
is imported before one of them is used."""

import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from . import settings, where

if TYPE_CHECKING:
    from .aio import AsyncKafka
    from .findings import Finding
    from .kafka import Kafka
    from .loop_thread import LoopThread

K = TypeVar("K", bound="Kafka")

# What lies between the line of a test and the barrier that it has called; threads, for AsyncKafka.
_WAYS = (f"{__package__}.", "asyncio.", "concurrent.futures.", "threading")
_BROKERS = pytest.StashKey[list["Kafka"]]()
"""Of a test: those that fixtures of ours have started for it, and that can be steered."""
_BEGAN = pytest.StashKey[float]()
"""When the setup of a test began, by time.monotonic."""
_HAS_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    settings.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    settings.add_marker(config)
    settings.check_options(config)
    path = settings.timeline_of(config)
    if path is not None and not hasattr(config, "workerinput"):  # which xdist's workers have
        from .page import TimelinePage

        config.pluginmanager.register(TimelinePage(path))


@pytest.fixture(scope="session")
def _kafka_loop() -> "Iterator[LoopThread]":
    from .loop_thread import LoopThread

    with LoopThread() as loop:
        yield loop


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _kafka_loop: "LoopThread") -> "Iterator[Kafka]":
    """A broker as new, for this test alone: on a port of its own, so that a client which another
    test has forgotten to close does not come here. Or the real cluster that
    KOHORT_TEST_BOOTSTRAP_SERVERS names."""
    kafka = where.kafka_for_test(loop=_kafka_loop, **_settings(request))
    yield _started(request, kafka)
    _stop(request, kafka)


@pytest.fixture
def async_kafka(
    request: pytest.FixtureRequest, _kafka_loop: "LoopThread"
) -> "Iterator[AsyncKafka]":
    """The same for async tests: what waits is awaited, and the consumers on the test's loop live on
    meanwhile. Another broker than `kafka` of the same test."""
    kafka = where.async_kafka_for_test(loop=_kafka_loop, **_settings(request))
    yield _started(request, kafka)
    _stop(request, kafka)


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, _kafka_loop: "LoopThread"
) -> "Iterator[Callable[..., Kafka]]":
    """Makes as many brokers as a test wants: `kafka_cluster(nodes=3)`, with the arguments of
    Kafka(). All are stopped at its end."""
    given = settings.merged({"nodes": 3, "loop": _kafka_loop}, _settings(request))
    with ExitStack() as closing:

        def make(**how: object) -> "Kafka":
            kafka = where.kafka_for_test(**settings.merged(given, how))
            _started(request, kafka)
            closing.callback(_stop, request, kafka)
            return kafka

        yield make


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return settings.settings_of(request.node, options=where.real_cluster() is None)


def _started(request: pytest.FixtureRequest, kafka: K) -> K:
    kafka.start()
    if where.real_cluster() is None:
        request.node.stash.setdefault(_BROKERS, []).append(kafka)
    return kafka


def _stop(request: pytest.FixtureRequest, kafka: "Kafka") -> None:
    item = request.node
    try:
        # A test that failed had no chance to close its clients.
        if item.stash.get(_HAS_PASSED, False) and kafka in item.stash.get(_BROKERS, []):
            _consult(item, lambda: kafka.doctor.left_open)
    finally:
        kafka.stop()
        # pytest keeps its items for the whole run; and what runs a failed one again asks the same
        # item, for which the broker of the first attempt would still be one of its own.
        brokers = item.stash.get(_BROKERS, [])
        item.stash[_BROKERS] = [each for each in brokers if each is not kafka]


def _consult(item: pytest.Item, find: "Callable[[], list[Finding]]") -> None:
    """What the doctor finds: warnings at the test, or its failure."""
    said = settings.doctor_of(item.config)
    found = find() if said != "off" else []
    if said == "error":
        from .doctor import complain

        complain(found)
    for each in found:
        from .findings import DoctorWarning

        line = (item.location[1] or 0) + 1
        warnings.warn_explicit(str(each), DoctorWarning, str(item.path), line)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a broker of the test has to say against it: a fault that never fired, a client that does
    wrong."""
    # What a fixture has set stays, and what the test itself has set meets nobody after it.
    shared = {each: each.faults.all for each in _shared(item)}
    try:
        yield
        for kafka in item.stash.get(_BROKERS, []):
            kafka.faults.check()
        for kafka, of_fixtures in shared.items():
            kafka.faults.check(of_fixtures)
    finally:
        for kafka, of_fixtures in shared.items():
            kafka.faults.clear(of_fixtures)
    for kafka in item.stash.get(_BROKERS, []):
        _consult(item, lambda kafka=kafka: kafka.doctor.findings)  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What happened in the brokers of a test that failed; where one was skipped."""
    place = None
    if call.excinfo is not None:
        place = settings.place_of_skip(call.excinfo, item)
        if not item.config.option.fulltrace:
            _cut(call.excinfo)
    report = yield
    if place is not None and isinstance(report.longrepr, tuple):
        report.longrepr = (*place, report.longrepr[2])
    if call.when == "call":
        item.stash[_HAS_PASSED] = report.passed
    has_run = call.when == "call" or (report.failed and call.when == "setup")
    if has_run and settings.timeline_of(item.config) is not None:
        _draw(item, report)
    if report.failed and call.when != "teardown":  # then they may be gone
        for kafka, since_s in _with_begin(item):
            if text := _told(kafka, since_s):
                report.sections.append(("kafka", text))
    return report


def _cut(failure: pytest.ExceptionInfo[BaseException]) -> None:
    """Where a barrier was in vain, the test's own line and the message say all that there is: the
    way from one to the other would be pages. `--full-trace` has it."""
    known = sys.modules.get(f"{__package__}.waiting")
    if known is None or not failure.errisinstance(known.BarrierTimeout):
        return
    entry, last = failure.tb, failure.tb
    while entry.tb_next is not None:
        entry = entry.tb_next
        if not entry.tb_frame.f_globals.get("__name__", "").startswith(_WAYS):
            last = entry
    last.tb_next = None
    failure.traceback = type(failure.traceback)(failure.tb)


def _shared(item: pytest.Item) -> "list[Kafka]":
    """What fixtures of its own have given to a test: brokers of a whole session, perhaps."""
    known = sys.modules.get(f"{__package__}.kafka")
    if known is None or where.real_cluster() is not None:
        return []
    given = dict.fromkeys(
        each
        for each in (getattr(item, "funcargs", None) or {}).values()
        if isinstance(each, known.Kafka)
    )
    return [each for each in given if each not in item.stash.get(_BROKERS, [])]


def _with_begin(item: pytest.Item) -> "Iterator[tuple[Kafka, float]]":
    """Its brokers, and when it began by the history of each."""
    for kafka in item.stash.get(_BROKERS, []):
        yield kafka, 0.0
    for kafka in _shared(item):
        ago_s = time.monotonic() - item.stash[_BEGAN]
        yield kafka, max(kafka.history.wall_s - ago_s, 0.0)


def _told(kafka: "Kafka", since_s: float) -> str:
    from .report import report

    try:
        return report(kafka, since_s)
    except Exception as error:
        # pytest would end the whole run: a broker that is out of order fails its own test only.
        return f"what happened cannot be told: {error!r}"


def _draw(item: pytest.Item, report: pytest.TestReport) -> None:
    for kafka, since_s in _with_begin(item):
        from .drawing import draw
        from .page import ATTRIBUTE

        before = getattr(report, ATTRIBUTE, "")
        setattr(report, ATTRIBUTE, before + draw(kafka.history, since_s))
