"""Clients of six languages play the same stories, with the outcomes of docs/compatibility.md."""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from .brokers import Cluster
from .clients import CLIENTS, Client, Difference, Missing
from .play import FAILED, broker, play, recorded
from .stories import STORIES, Stage, Story


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with broker("kohort", tmp_path_factory.mktemp("broker")) as cluster:
        yield cluster


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.toolchain
# kafka-python leaves a socket open when it is closed while it connects.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_plays_all_stories(client: Client, cluster: Cluster) -> None:
    try:
        outcomes = play(client, cluster)
    except Missing as missing:
        pytest.skip(str(missing))
    failed = [f"{name} {text}" for name, text in outcomes.items() if text.startswith(FAILED)]
    assert not failed, "\n".join(failed)
    known = recorded().get(client.name, outcomes)  # the machine may have another librdkafka
    assert outcomes == known, "make languages updates docs/compatibility.md"


def fails(text: str) -> Story:
    def story(_stage: Stage) -> None:
        raise AssertionError(text)

    return story


@pytest.mark.parametrize(
    ("story", "outcome"),
    [
        (fails("the expected failure"), "differs: reports no error"),
        (fails("another failure"), FAILED),
        (lambda _stage: None, f"{FAILED}it works: clients.py says otherwise"),
    ],
)
def test_a_known_difference_must_fail_as_recorded(
    story: Story, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STORIES, "story", story)
    known = {"story": Difference("reports no error", "the expected failure")}
    client = Client("Any", "library", "1.0", lambda: ["cat"], known)
    found = play(client, Mock(spec=Cluster), ["story"])["story"]
    assert found.startswith(outcome)


def test_the_results_are_those_of_these_clients_and_stories() -> None:
    """The versions of the machine's own libraries do not matter."""
    results = json.loads((Path(__file__).with_name("results.json")).read_text(encoding="utf-8"))
    named = {client.name for client in CLIENTS if client.language != "C"}
    assert {each["name"] for each in results["clients"] if each["language"] != "C"} == named
    for each in results["clients"]:
        assert list(each["outcomes"]) == list(STORIES), "make languages updates the results"
