"""Clients of six languages play the same stories."""

import os
from collections.abc import Iterator

import pytest

from .brokers import Cluster
from .clients import CLIENTS, Client, Missing
from .play import FAILED, broker, play


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """KOHORT_LANGUAGES_BROKER=kafka: on Kafka."""
    name = os.environ.get("KOHORT_LANGUAGES_BROKER", "kohort")
    with broker(name, tmp_path_factory.mktemp("broker")) as cluster:
        yield cluster


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_plays_all_stories(client: Client, cluster: Cluster) -> None:
    try:
        outcomes = play(client, cluster)
    except Missing as missing:
        pytest.skip(str(missing))
    failed = [f"{name} {text}" for name, text in outcomes.items() if text.startswith(FAILED)]
    assert not failed, "\n".join(failed)
