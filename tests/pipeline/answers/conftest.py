"""The lake of groups.py, once for all tests of a worker: nobody writes to it."""

from pathlib import Path

import pytest

from . import groups


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return groups.lake(tmp_path_factory.mktemp("answers") / "lake")


@pytest.fixture(scope="session")
def blind_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nobody took samples of where logs end."""
    return groups.lake(tmp_path_factory.mktemp("answers") / "blind", samples=False)
