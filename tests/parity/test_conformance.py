"""`kohort conformance`: which scenarios it plays on a broker, what it compares, its exit codes."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator

import pytest
from kohort.broker.config.broker_config import BrokerConfig
from kohort.cli.conformance import _address
from kohort.cli.main import CONFORMANCE_SETTINGS, main
from kohort.conformance.differences import FIELDS_MAX, LENGTH_MAX, first_difference
from kohort.conformance.player import FAILED, Player, play
from kohort.conformance.recorder import ScriptFailed
from kohort.conformance.recordings import needs, recorded
from kohort.conformance.scenario import Scenario, load
from kohort.conformance.script import Script
from kohort.conformance.settings import DEFAULTS, SETTINGS, of_group, properties, unmet
from kohort.conformance.transcript import OLDER, without_details
from kohort.conformance.wire import AsyncClient
from kohort.java_properties import parse_properties
from kohort.testing import Kafka

from .brokers import kohort_broker, play_on_kohort

UNKNOWN_GROUP = "heartbeats.a_heartbeat_to_an_unknown_group"
LIMITED = "limits.a_full_group_rejects_another_member"
CONSUMER = "consumer_joining.a_consumer_joins"
CLOSED = ("--bootstrap-server", "127.0.0.1:1")
NONE = ("--settings", "transactions", "--only", "leaving")
REMEDY = "`kohort conformance --print-settings delayed` prints the settings of these scenarios\n"
DELAY = "group.initial.rebalance.delay.ms"
INTERVAL, OF_GROUP = "group.consumer.assignment.interval.ms", "consumer.assignment.interval.ms"

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def shared_kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; return its exit code and output."""

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["conformance", *arguments])
        output = capsys.readouterr()
        return code, output.out + output.err

    return run


def played(run: Run, kafka: Kafka, *patterns: str, flags: tuple[str, ...] = ()) -> tuple[int, str]:
    only = [argument for pattern in patterns for argument in ("--only", pattern)]
    return run("--bootstrap-server", kafka.bootstrap_servers, *only, *flags)


def test_equal_responses_have_exit_code_0(run: Run, shared_kafka: Kafka) -> None:
    code, output = played(run, shared_kafka, UNKNOWN_GROUP, "syncing.a_sync_in_a_stable_group")
    assert code == 0, output
    assert output.splitlines()[-1].split() == ["total", "2", "0", "0", "0"]


def test_different_responses_have_exit_code_1_and_are_shown(run: Run) -> None:
    with Kafka() as kafka:
        # Once more when the scenario is played again.
        kafka.faults.answer("Heartbeat", "NOT_COORDINATOR", times=2)
        code, output = played(run, kafka, UNKNOWN_GROUP)
    assert code == 1
    assert f"differs: {UNKNOWN_GROUP}: Heartbeat: an unknown group, in every version" in output
    step, field = output.splitlines()[-2:]
    assert step.startswith("       1. A: Heartbeat v0")
    assert field == "         error_code: Kafka unknown_member_id, kohort not_coordinator"


def test_only_differing_fields_are_shown() -> None:
    answer = {"members": [{"id": "A"}, {"id": "B"}], "leader": "A", "protocol": None, "epoch": 1}
    other = {"members": [{"id": "A"}, {"id": "C"}], "leader": "", "protocol": "range", "epoch": 1}
    found = first_difference(
        [{"step": "1", "response": answer}], [{"step": "1", "response": other}]
    )
    assert found is not None
    assert [line.strip() for line in found.strip().splitlines()] == [
        "1",
        "members[1].id: Kafka B, broker C",
        'leader: Kafka A, broker ""',
        "protocol: Kafka null, broker range",
    ]
    failed = [{"step": "1", "response": {"error_code": "fenced_instance_id"}}]
    found = first_difference([{"step": "1", "response": {"error_code": "none", "x": 1}}], failed)
    assert found is not None
    assert found.endswith("1\n         error_code: Kafka none, broker fenced_instance_id\n")
    many, others = [*range(FIELDS_MAX + 2)], [*range(1, FIELDS_MAX + 3)]
    found = first_difference([{"step": "1", "response": many}], [{"step": "1", "response": others}])
    assert found is not None
    assert found.endswith("  and 2 more\n")
    waits = [{"step": "1", "response": "waits", "delayed": {"A": answer}}]
    found = first_difference(waits, [{"step": "1", "response": answer}])
    assert found is not None
    assert 'delayed: Kafka {"A": {"members"' in found
    assert found.endswith("broker (absent)\n")


def test_long_values_are_cut_to_where_they_differ() -> None:
    kafka, other = "x" * 1000 + "a" + "y" * 1000, "x" * 1000 + "b"
    found = first_difference([{"step": "1", "response": kafka}], [{"step": "1", "response": other}])
    assert found is not None
    assert "xa" in found
    assert "xb" in found
    assert len(found) < 3 * LENGTH_MAX


def test_scenarios_that_need_other_settings_are_skipped(run: Run, shared_kafka: Kafka) -> None:
    code, output = played(run, shared_kafka, UNKNOWN_GROUP, LIMITED)
    assert code == 0
    assert f"skipped: 1 scenario needs {DELAY}=3000 (the broker has 0), group.max.size=2" in output
    code, output = played(run, shared_kafka, LIMITED)
    assert code == 2
    assert "no scenario can be played" in output
    assert "group.max.size=2" in output
    assert output.endswith(f". {REMEDY}")


def test_settings_without_a_value_are_called_so(run: Run, shared_kafka: Kafka) -> None:
    code, output = played(run, shared_kafka, UNKNOWN_GROUP, "acls")
    assert code == 0
    assert "the broker has )" not in output
    assert (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer (not set)"
        in (output)
    )
    assert output.endswith("prints the settings of these scenarios; NAME: acls, open\n")
    assert list(unmet("transactions", ["log.retention.ms"], {"log.retention.ms": None})) == [
        "log.retention.ms=-1 (not set)"
    ]


def test_a_reported_setting_that_is_assumed_otherwise_is_a_warning(
    run: Run, shared_kafka: Kafka
) -> None:
    flags = ("--assume", f"{DELAY}=0", "--assume", "group.max.size=3")
    _, output = played(run, shared_kafka, UNKNOWN_GROUP, flags=flags)
    assert output.count("--assume") == 1
    assert "--assume group.max.size=3: the broker reports 2147483647." in output


def test_scenarios_that_name_the_node_need_its_id(run: Run) -> None:
    described = "keys_of_consumer_groups_of_the_broker_are_described"
    with Kafka(config={"node.id": "5"}) as kafka:
        code, output = played(run, kafka, "broker_configs", described, "the_quorum_is_described")
    assert code == 0
    assert "skipped: 11 scenarios need node.id=1 (the broker has 5)\n" in output
    assert [*map(str.split, output.splitlines())][-3] == ["total", "2", "0", "0", "11"]
    assert "--print-settings" not in output


@pytest.mark.parametrize(("area", "module"), [("heartbeats, sessions", "heartbeats")])
def test_scenarios_are_selected_by_their_area(run: Run, area: str, module: str) -> None:
    code, output = run("--list", "--only", area)
    assert (code, output) == run("--list", "--only", module)


def test_progress_has_a_total_and_is_cleared(
    shared_kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    where = ("--bootstrap-server", shared_kafka.bootstrap_servers)
    assert main(["conformance", *where, "--only", UNKNOWN_GROUP]) == 0
    assert capsys.readouterr().err == "\r\033[K1 of 1 scenarios\r\033[K"


def test_scenarios_that_need_other_apis_are_unsupported(run: Run) -> None:
    with Kafka(profile="kafka-3.9") as kafka:
        code, output = played(run, kafka, UNKNOWN_GROUP, CONSUMER)
    assert code == 0
    assert "unsupported: 1 scenario needs ConsumerGroupHeartbeat v1" in output


def test_scenarios_with_acls_need_a_listener_for_their_users(run: Run, shared_kafka: Kafka) -> None:
    code, output = played(run, shared_kafka, UNKNOWN_GROUP, "acls", flags=("--format", "json"))
    assert code == 0
    results = json.loads(output)["scenarios"]
    assert {each["outcome"] for each in results if each["area"] == "ACLs"} == {"skipped"}
    assert results[0]["detail"].startswith("--sasl-bootstrap-server, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (CLOSED, "cannot connect to 127.0.0.1:1: connection refused."),
        (("--bootstrap-server", "a:b"), "invalid address 'a:b': expected HOST:PORT."),
        (("--bootstrap-server", "a:1,b:2"), "2 addresses in 'a:1,b:2': expected one, HOST:PORT."),
        (("--only", "heartbeat"), "no scenario matches --only heartbeat: did you mean heartbeats?"),
        (("--only", ""), "no scenario matches --only '': see --list."),
        (("--list", *NONE), "no scenario of --settings transactions matches --only leaving: see"),
        ((*CLOSED, *NONE), "no scenario of --settings transactions matches --only leaving: see"),
        (
            (*CLOSED, "--assume", "foo=bar"),
            "invalid --assume foo=bar: no scenario needs foo: see --list.",
        ),
        (
            (*CLOSED, "--assume", "group.max.sizes=2"),
            (
                "invalid --assume group.max.sizes=2: no scenario needs group.max.sizes: did you "
                "mean group.max.size?"
            ),
        ),
        (
            (*CLOSED, "--assume", f"{DELAY}=abc"),
            f"invalid --assume {DELAY}=abc: expected a number.",
        ),
        (("--bootstrap-server", "127.0.0.1:1", "--command-config", "no"), "cannot read no"),
    ],
)
def test_mistakes_have_exit_code_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert message in output


def test_the_list_names_the_settings_that_scenarios_need(run: Run) -> None:
    code, output = run("--list", "--only", LIMITED)
    assert (code, output.count("\n")) == (0, 1)
    assert output.startswith(f"{LIMITED}: ")
    assert "[recorded with delayed; needs group." in output
    assert "group.max.size" in output
    _, output = run("--list", "--only", "transactions_are_listed")
    assert output.endswith("[recorded with transactions; needs none of its settings]\n")


def test_the_port_may_be_omitted() -> None:
    assert _address("localhost") == ("localhost", 9092)
    assert _address("[::1]:1234") == ("::1", 1234)


@pytest.mark.parametrize("name", SETTINGS)
def test_printed_settings_are_those_of_a_broker(run: Run, name: str) -> None:
    code, output = run("--print-settings", name)
    assert (code, output) == (0, properties(name))
    found = dict(parse_properties(output))
    assert found.items() >= SETTINGS[name].items()
    assert BrokerConfig(found)["group.min.session.timeout.ms"] == 500


def test_the_command_knows_all_settings() -> None:
    assert set(CONFORMANCE_SETTINGS) == set(SETTINGS)
    assert {key for settings in SETTINGS.values() for key in settings} == set(DEFAULTS)


def test_every_scenario_is_recorded_with_the_settings_that_it_needs() -> None:
    for scenario in load().values():
        assert recorded(scenario), scenario.name
        assert set(needs(scenario)) <= {*SETTINGS[scenario.settings], OF_GROUP}, scenario.name


def test_settings_are_compared_only_if_a_scenario_needs_them() -> None:
    assert list(unmet("quick", [DELAY], {DELAY: "0"})) == []
    assert list(unmet("quick", [DELAY], {DELAY: "3000"})) == [f"{DELAY}=0 (the broker has 3000)"]
    assert list(unmet("quick", [DELAY], {})) == [f"{DELAY}=0 (the broker does not report it)"]
    assert list(unmet("quick", [], {DELAY: "3000", "offsets.topic.num.partitions": "1"})) == []


def test_a_limit_of_the_broker_concerns_scenarios_that_do_not_mention_it() -> None:
    reason = "group.max.size=2147483647 (the broker has 2)"
    assert list(unmet("quick", [], {"group.max.size": "2"})) == [reason]


def test_groups_can_have_a_setting_that_the_broker_lacks() -> None:
    assert list(unmet("consumer", [OF_GROUP], {INTERVAL: "1000"})) == []
    assert of_group("consumer", [OF_GROUP], {INTERVAL: "1000"}) == {OF_GROUP: "0"}
    assert of_group("consumer", [OF_GROUP], {INTERVAL: "0"}) == {}
    assert list(unmet("consumer", [OF_GROUP], {})) == [
        f"{INTERVAL} (the broker does not report it)"
    ]


def test_what_clients_do_not_read_is_not_compared() -> None:
    failed = {"error_code": "invalid_request", "error_message": "why", "heartbeat_interval": 5}
    assert without_details({"groups": [failed]}) == {"groups": [{"error_code": "invalid_request"}]}
    found = {"error_code": "none", "error_message": "", "member_id": "A"}
    assert without_details(found) == {"error_code": "none", "member_id": "A"}
    left = {"error_code": "none", "member_epoch": -1, "heartbeat_interval": 5}
    assert without_details(left) == {"error_code": "none", "member_epoch": -1}
    required = {"error_code": "member_id_required", "member_id": "A"}
    assert without_details(required) == required


def test_responses_in_older_versions_are_compared_by_their_fields() -> None:
    joined = {"generation_id": 1, "protocol_type": "consumer"}
    kafka = [{"step": "1", "response": joined}, {"step": "2", "response": "x"}]
    older = [{"step": "1", "response": {"generation_id": 1}, OLDER: True}]
    assert first_difference(kafka[:1], older) is None
    found = first_difference(kafka, [*older, {"step": "2", "response": "y", OLDER: True}])
    assert found is not None
    assert found.endswith("2\n         response: Kafka x, broker y\n")
    assert first_difference(kafka, [{**older[0], "response": {"generation_id": 2}}]) is not None


def test_a_response_that_does_not_arrive_in_an_older_version_is_a_difference() -> None:
    joined = {"A": {"generation_id": 1, "protocol_type": "consumer"}, "B": {"generation_id": 1}}
    kafka = [{"step": "1", "response": "x", "delayed": joined}]
    older = {"step": "1", "response": "x", OLDER: True}
    first, second = {"A": {"generation_id": 1}}, {"B": {"generation_id": 1}}
    assert first_difference(kafka, [{**older, "delayed": {**first, **second}}]) is None
    for delayed in ({}, {"delayed": first}, {"delayed": second}):
        assert first_difference(kafka, [{**older, **delayed}]) is not None


async def test_topics_of_other_scenarios_are_in_transcripts_if_the_request_names_them() -> None:
    async def lists_topics(script: Script) -> None:
        for version, topics in ((0, ()), (12, None), (12, ({"name": "other", "topic_id": None},))):
            await script.send("Metadata", version, {"topics": topics})

    async with kohort_broker(SETTINGS["quick"]) as broker:
        for name in ("mine.own", "other"):
            broker.broker.node.topics.create(name, 1, {})
        transcript = await play(Scenario("mine", "", lists_topics, "topics"), broker, "mine")
    listed = [[each["name"] for each in line["response"]["topics"]] for line in transcript]
    own = ["G.own", "orders", "payments", "shipments"]
    assert listed == [own, own, ["other"]]


async def test_a_client_that_cannot_connect_ends_all_scenarios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise, the other scenarios would change the broker while it is restored."""
    started = asyncio.Event()
    ended: list[str] = []

    async def waits(script: Script) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(script.group)

    scenarios = [Scenario(name, "", waits, "heartbeats") for name in ("first", "second")]
    async with kohort_broker(SETTINGS["quick"]) as broker:
        connect, results = broker.connect, iter([None, OSError("too many open files")])

        async def connect_one(client_id: str | None) -> AsyncClient:
            if error := next(results):
                await started.wait()
                raise error
            return await connect(client_id)

        monkeypatch.setattr(broker, "connect", connect_one)
        with pytest.raises(OSError, match="too many"):
            await Player(broker, {}).play(scenarios, quiet_ms=1)
    assert ended == ["first.1"]


async def test_acls_that_cannot_be_deleted_are_a_failure_of_their_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(_script: Script) -> None:
        raise ScriptFailed("not 0 ACLs")

    monkeypatch.setattr(Script, "delete_acls", fails)
    found = await play_on_kohort(load()["patterns_apply_to_names"])
    assert found[-1] == {"step": FAILED, "response": "not 0 ACLs"}
