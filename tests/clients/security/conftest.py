"""The clients of the tests in this folder."""

import logging

import pytest

from .connecting import CLIENTS


@pytest.fixture(params=CLIENTS)
def library(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> str:
    # Tracebacks in its records would keep the sockets that it leaves open.
    caplog.set_level(logging.CRITICAL, "kafka")
    caplog.set_level(logging.INFO)
    name: str = request.param
    return name
