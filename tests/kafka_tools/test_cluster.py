"""kafka-reassign-partitions, kafka-metadata-quorum and kafka-features."""

import json
from pathlib import Path

from .tools import Tools


def test_a_rollback_to_the_current_replicas_is_complete(
    tools: Tools, topic: str, tmp_path: Path
) -> None:
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    flags = ("--generate", "--topics-to-move-json-file", topics, "--broker-list", 1)
    # The plan that changes nothing, as the tool proposes it for a rollback.
    _, current, *_ = tools.run("reassign", *flags).lines()
    assert [each["partition"] for each in json.loads(current)["partitions"]] == [0, 1, 2, 3]
    plan.write_text(current)

    def run(action: str) -> str:
        return tools.run("reassign", action, "--reassignment-json-file", plan).output

    started = f"Successfully started partition reassignments for {topic}-0,{topic}-1"
    assert started in run("--execute")
    assert run("--verify").count("is completed.") == 4
    assert tools.run("reassign", "--list").lines() == ["No partition reassignments found."]
    assert "None of the specified partition reassignments are active." in run("--cancel")


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
