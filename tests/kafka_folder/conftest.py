"""The recorded folder of a real Kafka, unpacked for each test that wants one."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).parent / "kafka-4.3.tar.gz"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of Kafka's data folder."""
    with tarfile.open(RECORDED) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@pytest.fixture(scope="session")
def said() -> dict[str, Any]:
    """What Kafka said of it (asking.py)."""
    with tarfile.open(RECORDED) as tar:
        content = tar.extractfile("said.json")
        assert content is not None
        found: dict[str, Any] = json.load(content)
        return found
