"""Scenarios: scripts that run on any broker. Each shows a rule of Kafka."""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from .script import Script
from .settings import AUTHORIZER, INITIAL_DELAY, SETTINGS

Run = Callable[[Script], Awaitable[None]]

AREAS: Final[Mapping[str, str]] = {
    "joining": "joining",
    "syncing": "syncing",
    "heartbeats": "heartbeats, sessions",
    "leaving": "leaving",
    "static_members": "static members",
    "commits": "offsets",
    "limits": "limits",
    "administration": "administration of groups",
    "consumer": "consumer protocol (KIP-848)",
    "group_configs": "configurations of groups",
    "migration": "migration between protocols",
    "mixed_groups": "migration between protocols",
    "topics": "topics",
    "fetch_sessions": "fetch sessions (KIP-227)",
    "transactions_authorization": "ACLs",
    "transactions": "transactions",
    "acls": "ACLs",
    "cluster_authorization": "ACLs",
    "group_authorization": "ACLs",
    "topic_authorization": "ACLs",
    "client_quotas": "quotas, SCRAM users",
    "scram_credentials": "quotas, SCRAM users",
    "broker_configs": "broker configurations",
    "telemetry": "client metrics (KIP-714)",
    "api_versions": "API versions, features",
    "quorum": "quorum, features, reassignments",
    "reassignments": "quorum, features, reassignments",
}
"""The area of a scenario in reports, by its module or the start of the module's name. Reports list
the areas in this order."""


@dataclass(frozen=True)
class Scenario:
    name: str
    rule: str
    """The rule of Kafka that the scenario shows."""
    run: Run
    part: str
    """The name of the scenario's module, and of the file with its transcript."""
    settings: str = "quick"
    excuse: str | None = None
    """Why brokers may differ in the fields of responses that `hides` lists."""
    hides: tuple[str, ...] = ()
    kohort_lacks: tuple[str, ...] = ()
    """Fields that kohort's responses may lack (docs/not-implemented.md)."""
    is_exact: bool = False
    """Whether Kafka's responses are different in the older versions of requests that SAME_VERSIONS
    allows."""
    is_alone: bool = False
    """Whether Kafka's responses depend on concurrent requests of other scenarios. For example,
    Kafka verifies the partitions of several transactions together, and then returns the errors for
    one client's version to all clients."""

    @property
    def area(self) -> str:
        return next(area for part, area in AREAS.items() if self.part.startswith(part))

    @property
    def is_authorized(self) -> bool:
        return AUTHORIZER in SETTINGS[self.settings]

    @property
    def keeps_delay(self) -> bool:
        return SETTINGS[self.settings][INITIAL_DELAY] != "0"


_SCENARIOS: dict[str, Scenario] = {}


def scenario(rule: str, **options: Any) -> Callable[[Run], Run]:
    """Turn a script into a scenario with this rule. `options`: `settings`, `excuse`, `hides`,
    `kohort_lacks`, `is_exact`, `is_alone`."""

    def register(run: Run) -> Run:
        name = run.__name__
        assert name not in _SCENARIOS, f"two scenarios are named {name}"
        part = run.__module__.rpartition(".")[2]
        _SCENARIOS[name] = Scenario(name, rule, run, part, **options)
        return run

    return register


authorized = partial(scenario, settings="acls")
consumer_scenario = partial(scenario, settings="consumer")
transactional = partial(scenario, settings="transactions")
JAVA_OBJECTS: Final[Any] = {
    "excuse": "Kafka's message contains the request as Java prints its objects",
    "hides": ("error_message",),
}
"""Options of scenarios."""


@cache
def load() -> Mapping[str, Scenario]:
    """Return the scenarios of all modules of the package `scenarios`, by name."""
    package = importlib.import_module(".scenarios", __package__)
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _SCENARIOS
