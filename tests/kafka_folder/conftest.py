"""The recorded data folder of Kafka, unpacked for each test."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).parent / "kafka-4.3.tar.gz"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a copy of Kafka's data folder."""
    with tarfile.open(RECORDED) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@pytest.fixture(scope="session")
def recorded() -> dict[str, Any]:
    """Return Kafka's responses about the groups of the folder (group_requests.py)."""
    with tarfile.open(RECORDED) as tar:
        content = tar.extractfile("responses.json")
        assert content is not None
        responses: dict[str, Any] = json.load(content)
        return responses
