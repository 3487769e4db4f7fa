"""The fixture for the how-tos, which starts the service from the `billing` example."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from billing.service import Billing
from kohort.testing import Kafka


@pytest.fixture
def start() -> Iterator[Callable[..., Billing]]:
    """Return start(kafka, charge=…, …), whose services are stopped at the end of the test."""
    with ExitStack() as running:

        def start(kafka: Kafka, charge: Callable[[bytes], None], **settings: Any) -> Billing:
            return running.enter_context(Billing(kafka.bootstrap_servers, charge, **settings))

        yield start
