"""Which settings the transcript of a scenario depends on: it is played on kohort with another value
of each, mostly Kafka's default."""

from collections.abc import Mapping

from kohort.conformance.broker import STARTED_MS
from kohort.conformance.player import play
from kohort.conformance.recordings import difference
from kohort.conformance.scenario import Scenario
from kohort.conformance.settings import (
    AUTHORIZING,
    GROUP_LEVEL,
    INITIAL_DELAY,
    SETTINGS,
    Settings,
    variant,
)
from kohort.conformance.transcript import Transcript

from .brokers import kohort_broker

YEAR_MS = 365 * 24 * 3600 * 1000


async def needed_settings(scenario: Scenario, kafka: Transcript) -> list[str]:
    """Return the keys without which the transcript is not Kafka's; with them, it is."""
    settings = SETTINGS[scenario.settings]
    # Without them, there is no authorizer, or the control connection may do nothing.
    needed = [key for key in settings if key in AUTHORIZING]
    others = {key: variant(key, value) for key, value in settings.items() if key not in needed}
    current: dict[str, str | None] = dict(settings)
    if await _is_equal(scenario, kafka, {**settings, **others}):
        return needed
    for key, value in others.items():
        changed = {**current, key: value}
        of_group = {GROUP_LEVEL[key]: settings[key]} if key in GROUP_LEVEL else {}
        if await _is_equal(scenario, kafka, changed):
            current = changed
        elif of_group and await _is_equal(scenario, kafka, changed, of_group):
            needed += of_group
        else:
            needed.append(key)
    return needed


async def _is_equal(
    scenario: Scenario,
    kafka: Transcript,
    settings: Settings,
    of_group: Mapping[str, str] | None = None,
) -> bool:
    # Records with the times of scripts are old, as on any other broker.
    async with kohort_broker(settings, now_ms=STARTED_MS + YEAR_MS) as broker:
        broker.initial_delay_ms = int(settings[INITIAL_DELAY] or 0)
        transcript = await play(scenario, broker, scenario.name, configs=of_group)
    return difference(scenario, kafka, transcript, "kohort") is None
