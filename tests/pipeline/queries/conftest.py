"""Sample lakes, built once per worker; no test writes to them."""

from pathlib import Path

import pytest

from . import sample_lake


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake.write(tmp_path_factory.mktemp("queries") / "lake")


@pytest.fixture(scope="session")
def lake_without_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_lake.write(tmp_path_factory.mktemp("queries") / "no-samples", samples=False)
