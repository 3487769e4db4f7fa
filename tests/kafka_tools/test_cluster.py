"""kafka-reassign-partitions, kafka-metadata-quorum and kafka-features."""

import json
from pathlib import Path
from typing import Any

import pytest

from .tools import Tools


class Reassignments:
    """Runs kafka-reassign-partitions for a topic."""

    def __init__(self, tools: Tools, topic: str, folder: Path) -> None:
        self._tools, self._topic, self._folder = tools, topic, folder

    def current(self) -> Any:
        """The plan that changes nothing, as the tool proposes it for a rollback."""
        topics = self._file("topics", {"version": 1, "topics": [{"topic": self._topic}]})
        flags = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", 1)
        _, plan, *_ = self._tools.run("reassign", *flags).lines()
        return json.loads(plan)

    def run(self, action: str, plan: Any) -> tuple[int, str]:
        flags = (action, "--reassignment-json-file", self._file("plan", plan))
        result = self._tools.run("reassign", *flags)
        return result.status, result.output

    def _file(self, name: str, content: Any) -> Path:
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(content))
        return path


@pytest.fixture
def reassignments(tools: Tools, topic: str, tmp_path: Path) -> Reassignments:
    return Reassignments(tools, topic, tmp_path)


def test_a_rollback_to_the_current_replicas_is_complete(
    tools: Tools, topic: str, reassignments: Reassignments
) -> None:
    plan = reassignments.current()
    assert [each["partition"] for each in plan["partitions"]] == [0, 1, 2, 3]
    status, output = reassignments.run("--execute", plan)
    assert status == 0, output
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in output
    _, output = reassignments.run("--verify", plan)
    assert output.count("is completed.") == 4
    assert tools.run("reassign", "--list").lines() == ["No partition reassignments found."]
    _, output = reassignments.run("--cancel", plan)
    assert "None of the specified partition reassignments are active." in output


def test_replicas_are_not_moved_to_unknown_nodes_and_directories(
    topic: str, reassignments: Reassignments
) -> None:
    plan = reassignments.current()
    plan["partitions"][0]["log_dirs"] = ["/nowhere"]
    status, output = reassignments.run("--execute", plan)
    assert status == 1
    assert f"Failed to alter dir for {topic}-0-1" in output
    assert "LogDirNotFoundException" in output
    plan["partitions"][0] |= {"log_dirs": ["any"], "replicas": [77]}
    status, output = reassignments.run("--execute", plan)
    assert status == 1
    assert "Unknown broker id 77" in output


def test_the_quorum_has_one_voter(tools: Tools) -> None:
    status = dict(
        line.split(":", 1) for line in tools.run("quorum", "describe", "--status").lines()
    )
    assert status["LeaderId"].strip() == "1"
    assert status["MaxFollowerLag"].strip() == "0"
    (voter,) = json.loads(status["CurrentVoters"])
    assert voter["id"] == 1
    assert json.loads(status["CurrentObservers"]) == []
    titles, leader = tools.run("quorum", "describe", "--replication").lines()
    row = dict(zip(titles.split(), leader.split(), strict=True))
    assert (row["NodeId"], row["Lag"], row["Status"]) == ("1", "0", "Leader")
    assert int(row["LogEndOffset"]) > 0


def test_features_are_described_and_stay_at_their_version(tools: Tools) -> None:
    lines = tools.run("features", "describe").lines()
    (group,) = (line for line in lines if "group.version" in line)
    assert "FinalizedVersionLevel: 1" in group
    upgraded = tools.run("features", "upgrade", "--feature", "group.version=1")
    assert upgraded.lines() == ["group.version was upgraded to 1."]
    unknown = tools.run("features", "upgrade", "--feature", "nonsense=1")
    assert unknown.status == 1
    assert "Local controller 1 does not support this feature." in unknown.output
    lower = tools.run("features", "upgrade", "--feature", "transaction.version=1")
    assert lower.status == 1
    assert "Can't downgrade the version of this feature" in lower.output
