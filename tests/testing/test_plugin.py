"""The pytest plugin, run in a separate pytest process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def run(pytester: pytest.Pytester, *options: str, more: str = "") -> pytest.RunResult:
    pytester.makeini(f"[pytest]\nasyncio_default_fixture_loop_scope = function\n{more}")
    # With `python -m pytest`, pytest mistakes our __main__.py for the running one.
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    return pytester.runpytest_inprocess("-p", "no:randomly", *options, *quiet)


@pytest.mark.parametrize(
    ("ini", "options", "origin"),
    [
        ("kafka_config = num.partition=3", (), "kafka_config in the ini file"),
        ("", ("--kafka-config", "num.partition=3"), "--kafka-config"),
    ],
)
def test_an_unknown_key_of_the_options_is_reported_with_its_origin(
    pytester: pytest.Pytester, ini: str, options: tuple[str, ...], origin: str
) -> None:
    result = run(pytester, *options, more=ini)
    result.stderr.fnmatch_lines(
        f"*unknown configuration key 'num.partition' (from {origin}): did you mean num.partitions?"
    )


def test_a_wait_without_await_fails_its_test_and_names_the_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        async def test_forgets(async_kafka):
            group = async_kafka.group("billing")
            group.wait_stable(members=1)
            fault = async_kafka.faults.drop("Heartbeat")
            fault.wait()
            fault.cancel()
            async_kafka.fake_member("billing")
            await group.wait_empty()

        async def test_of_something_else(async_kafka):
            await async_kafka.group("billing").wait_empty()
        """
    )
    result = run(pytester, "-W", "error", more="asyncio_mode = auto")
    result.assert_outcomes(failed=1, passed=1)
    file = "*test_a_wait_without_await_fails_its_test_and_names_the_line.py"
    result.stdout.fnmatch_lines(
        [
            "`await` is missing at",
            f"{file}:3: Group.wait_stable()",
            f"{file}:5: Fault.wait()",
            f"{file}:7: Kafka.fake_member()",
        ]
    )
    result.stdout.no_fnmatch_line("*never awaited*")


def test_a_missing_await_is_in_the_report_of_a_failed_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        async def test_fails(async_kafka):
            async_kafka.group("billing").wait_stable(members=1)
            assert async_kafka.history.requests
        """
    )
    result = run(pytester, more="asyncio_mode = auto")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError", "*`await` is missing at", "*.py:2: Group*"])


def test_the_traceback_of_a_barrier_timeout_ends_in_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def read(group):
            group.wait_stable(timeout=0.01)  # the helper's line

        def test_with_a_helper(kafka):
            read(kafka.group("billing"))

        def test_of_a_condition(kafka):
            kafka.wait(lambda: False, "an order", timeout=0.01)

        async def awaited(kafka):
            await kafka.group("billing").wait_stable(timeout=0.01)

        async def test_on_a_loop(async_kafka):
            await awaited(async_kafka)
        """
    )
    result = run(pytester, more="asyncio_mode = auto")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*# the helper's line",
            "E *BarrierTimeout: timed out after 0.01 s waiting for group billing to be Stable",
            "*.py:2: BarrierTimeout",
            "E *BarrierTimeout: timed out after 0.01 s waiting for an order",
            "*.py:8: BarrierTimeout",
            "E *BarrierTimeout: timed out after 0.01 s waiting for group billing to be Stable",
            "*.py:11: BarrierTimeout",
        ]
    )
    assert "check_may_block()" not in result.stdout.str()
    whole = run(pytester, "--full-trace", more="asyncio_mode = auto")
    assert "check_may_block()" in whole.stdout.str()


def test_the_traceback_of_a_mistake_ends_in_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_of_a_topic(kafka):
            kafka.topic("orders")
            kafka.group("billing").lag("oders")

        def test_of_a_type(kafka):
            kafka.topic("orders").produce([1])

        async def test_of_the_fixture(kafka):
            kafka.group("billing").wait_stable()

        def test_of_an_attribute(kafka):
            kafka.grup

        def test_of_a_value(kafka):
            kafka.topic("orders", config={"retention.ms": "for ever"})
        """
    )
    result = run(pytester, more="asyncio_mode = auto")
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(
        [
            "*.py:5: LookupError",
            "*.py:8: TypeError",
            "*.py:11: RuntimeError",
            "*.py:14: AttributeError",
            "*.py:17: ValueError",
        ]
    )
    result.stdout.no_fnmatch_line("*raise *")


def test_a_bug_of_the_harness_keeps_its_traceback(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_of_groups(kafka, monkeypatch):
            monkeypatch.setattr("kohort.testing.kafka.group_ids", len)
            kafka.groups
        """
    )
    run(pytester).stdout.fnmatch_lines(["*kafka.groups", "*kafka.py:*: TypeError"])


def test_a_check_after_the_test_is_a_message_without_source(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def test_of_a_fault(kafka):
            kafka.faults.drop("OffsetCommit")

        async def test_of_a_wait(async_kafka):
            async_kafka.group("billing").wait_stable()

        def test_that_is_not_async(async_kafka):
            async_kafka.group("billing").wait_stable()

        @pytest.mark.kafka(config={"num.partition": 3})
        def test_of_a_key(kafka):
            pass
        """
    )
    result = run(pytester, more="asyncio_mode = auto")
    result.assert_outcomes(failed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            "unknown configuration key 'num.partition' *: did you mean num.partitions?",
            "unused fault at the end of the test",  # without source lines before it
            "`await` is missing at",
            "*test_it.py:7: Group.wait_stable()",
            "`await` is missing at",
            "*.py:10: Group.wait_stable() in a test that is not async: use the fixture kafka",
        ]
    )
    result.stdout.fnmatch_lines_random(
        [
            "FAILED *::test_of_a_fault - *UnusedFault: *",
            "FAILED *::test_of_a_wait - *NotAwaited: *",
            "ERROR *::test_of_a_key - kohort.*",
        ]
    )
    result.stdout.no_fnmatch_line("*def pytest_runtest_call*")


def test_a_complete_configuration_is_not_merged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kohort.broker.config.broker_config import BrokerConfig

        CONFIG = BrokerConfig({"num.partitions": "5"})

        @pytest.mark.kafka(config=CONFIG)
        def test_marker(kafka):
            assert kafka.topic("orders").partitions == 5

        def test_cluster(kafka_cluster):
            assert kafka_cluster(config=CONFIG).topic("orders").partitions == 5

        @pytest.mark.kafka(config=CONFIG)
        def test_closest_argument(kafka_cluster):
            assert kafka_cluster().topic("orders").partitions == 5
            assert kafka_cluster(config={"num.partitions": 2}).topic("orders").partitions == 2
        """
    )
    run(pytester).assert_outcomes(passed=3)


def test_a_failed_test_is_not_checked_for_unused_faults(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_something(kafka):
            kafka.faults.drop("OffsetCommit")
            assert kafka.bootstrap_servers == "elsewhere"
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("unused fault*")


def test_a_stopped_or_broken_broker_does_not_end_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_that_stops_it(kafka):
            kafka.stop()

        def test_that_fails_without_it(kafka):
            kafka.stop()
            assert kafka is None

        def test_whose_disk_fails(kafka):
            kafka.topic("orders", partitions=1)
            kafka.disk.fail("make_folder")
            kafka.crash()

        def test_that_breaks_it(kafka):
            kafka._host.history = None
            assert kafka is None

        def test_after_them(kafka):
            pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=3, passed=2)
    result.stdout.fnmatch_lines(
        ["E * assert * is None", "E *OSError:*", "the report of the broker failed: AttributeError*"]
    )


def test_each_test_has_its_own_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        seen = []

        def test_one(kafka):
            kafka.topic("orders", partitions=1).produce(["a"])
            seen.append(kafka.bootstrap_servers)

        def test_two(kafka):
            assert kafka.topic("orders", partitions=2).records() == []
            assert kafka.bootstrap_servers not in seen
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_the_plugin_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import kohort.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "kohort",
        "kohort.testing",
        "kohort.testing.backend",
        "kohort.testing.plugin",
        "kohort.testing.tracebacks",
    ]


def test_the_marker_overrides_options_and_options_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def setting(kafka, key):
            return kafka.call(lambda broker: broker.config.text(key))

        def test_of_the_options(kafka):
            assert setting(kafka, "num.partitions") == "4"
            assert setting(kafka, "group.max.size") == "7"
            assert setting(kafka, "group.initial.rebalance.delay.ms") == "3000"

        @pytest.mark.kafka(nodes=2, preset="instant", config={"num.partitions": "9"})
        class TestOfTheMarker:
            def test_both(self, kafka, async_kafka):
                for each in (kafka, async_kafka):
                    assert each.bootstrap_servers.count(",") == 1
                    assert setting(each, "num.partitions") == "9"
                    assert setting(each, "group.max.size") == "7"

            @pytest.mark.kafka(config={"group.max.size": "8"})
            def test_the_nearest_wins(self, kafka):
                assert setting(kafka, "num.partitions") == "9"
                assert setting(kafka, "group.max.size") == "8"
                assert setting(kafka, "group.initial.rebalance.delay.ms") == "0"
        """
    )
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
        "kafka_preset = kafka\nkafka_config =\n  num.partitions = 3\n  group.max.size=7\n"
    )
    options = ("--strict-markers", "--kafka-config", "num.partitions=4")
    pytester.runpytest_inprocess("-p", "no:randomly", *options).assert_outcomes(passed=3)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("3", "takes keyword arguments only"),
        ("node=3", "has no argument node: did you mean nodes[?]"),
        ("color=3", "has no argument color: it has nodes, preset, *"),
        ("config={'group.max.sise': 2}", "*group.max.sise* did you mean group.max.size[?]"),
        ("config=['num.partitions=3']", "the marker kafka: config is a list, not a dict"),
        ("durability='sync'", "Unknown durability 'sync': use one of fsync, os, none"),
    ],
)
def test_an_invalid_marker_is_an_error(
    pytester: pytest.Pytester, marker: str, message: str
) -> None:
    marked = f"@pytest.mark.kafka({marker})\ndef test_something(kafka): pass"
    pytester.makepyfile(f"import pytest\n{marked}")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{message}"])


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("preset", "instnt", "Unknown preset 'instnt': use one of instant, kafka"),
        ("profile", "kafka-2.7", "*kafka-2.7*kohort.profile*kafka-2.8* (from *kafka?profile)*"),
        ("config", "num.partitions", "*'num.partitions' (from kafka_config*): expected KEY=VALUE"),
        ("config", "num.partitions=many", "*many*num.partitions*"),
        ("config", "num.partition=3", "num.partition*did you mean num.partitions[?]"),
        (
            "client_checks",
            "of",
            "invalid kafka_client_checks 'of': expected one of warn, error, off",
        ),
    ],
)
def test_an_invalid_option_ends_the_run_at_once(
    pytester: pytest.Pytester, option: str, value: str, message: str
) -> None:
    pytester.makepyfile("def test_one(kafka): pass\ndef test_two(kafka): pass")
    result = run(pytester, more=f"kafka_{option} = {value}\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{message}"])
    assert len(result.errlines) <= 2  # the message, and an empty line


def test_kafka_cluster_creates_checks_and_stops_clusters(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        made = []

        def test_two_clusters(kafka_cluster):
            made.extend([kafka_cluster(), kafka_cluster(nodes=2, preset="kafka")])
            assert [each.bootstrap_servers.count(":") for each in made] == [3, 2]
            made[0].topic("orders", partitions=1)
            assert made[1].topic("orders", partitions=2).records() == []

        def test_nothing_is_left():
            for each in made:
                with pytest.raises(RuntimeError, match="not running"):
                    each.groups

        def test_it_is_no_broker(kafka_cluster):
            with pytest.raises(AttributeError, match="is a function that starts a broker"):
                kafka_cluster.topic

        def test_faults_are_checked(kafka_cluster):
            kafka_cluster(nodes=1).faults.drop("OffsetCommit")
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(["unused fault at the end of the test"])


@pytest.mark.slow
def test_xdist_workers_have_their_own_brokers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_alone(kafka, number):
            assert kafka.topic("orders", partitions=number + 1).records() == []
            kafka.topic("orders").produce([os.environ["PYTEST_XDIST_WORKER"]])
            assert len(kafka.topic("orders").records()) == 1
            kafka.clock.advance(days=number)
            print("by", os.environ["PYTEST_XDIST_WORKER"], kafka.bootstrap_servers)
        """
    )
    result = run(pytester, "--dist=each", "--tx=2*popen", "-rP")
    result.assert_outcomes(passed=6)
    lines = [line.split() for line in result.outlines if line.startswith("by ")]
    assert {worker for _, worker, _ in lines} == {"gw0", "gw1"}
    assert len({address for *_, address in lines}) == 6


def test_a_failed_test_is_reported_with_brokers_from_fixtures_of_the_user(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kohort.testing import Kafka, KafkaContainer

        shared = []

        @pytest.fixture(scope="session")
        def container():
            with KafkaContainer() as container:
                yield container

        @pytest.fixture(scope="module")
        def address():
            with Kafka() as kafka:
                kafka.fake_member("of-the-address")
                yield kafka.bootstrap_servers

        @pytest.fixture
        def service():
            with Kafka() as kafka:
                kafka.fake_member("of-the-service")
                yield object()

        def test_container(container):
            container.kafka.fake_member("of-the-container")
            shared.append(container.kafka)
            assert False

        def test_address(address):
            assert False

        def test_service(service):
            (kafka,) = shared
            last = kafka.history.requests[-1].number
            kafka.clock.advance(seconds=20)
            kafka.wait_request("Heartbeat", after=last)
            assert False
        """
    )
    outcome = run(pytester, "-rN")
    outcome.assert_outcomes(failed=3)
    tests = re.split(r"_ test_(?:container|address|service) _", outcome.stdout.str())[1:]
    groups = [set(re.findall("Group (of-the-[a-z]+) is Stable", text)) for text in tests]
    assert groups == [{"of-the-container"}, {"of-the-address"}, {"of-the-service"}]


def test_an_exception_in_with_kafka_has_the_report_of_the_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from kohort.testing import AsyncKafka, Kafka

        def test_it():
            with Kafka() as kafka:
                kafka.fake_member("billing")
                assert kafka.groups == []

        async def test_awaited():
            async with AsyncKafka() as kafka:
                await kafka.fake_member("shop")
                assert kafka.groups == []

        async def test_of_the_wrong_class():
            async with Kafka() as kafka:
                pass
        """
    )
    outcome = run(pytester, "-rN", "-o", "asyncio_mode=auto")
    outcome.assert_outcomes(failed=3)
    outcome.stdout.fnmatch_lines(
        [
            "*Group billing is Stable in generation 1 with 1 member.*",
            "*Group shop is Stable in generation 1 with 1 member.*",
            "E *TypeError: Kafka blocks the event loop: use `async with AsyncKafka()`",
        ]
    )


def test_the_group_in_the_message_of_a_wait_is_not_explained_again(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        def test_wait(kafka):
            kafka.fake_member("billing", ["orders"])
            kafka.fake_member("shop", ["orders"])
            kafka.group("billing").wait_stable(members=2, timeout=0.01)
        """
    )
    text = run(pytester, "-rN").stdout.str()  # with CI=true, the summary has all of the message
    assert text.count("Group billing is Stable") == text.count("Group shop is Stable") == 1


def test_a_wait_and_the_report_say_each_thing_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_hold(kafka):
            kafka.fake_member("billing", ["orders"])
            with kafka.group("billing").hold_joins() as held:
                held.wait(timeout=0.01)

        def test_condition(kafka):
            kafka.wait(lambda: False, timeout=0.01)

        def test_assertion(kafka):
            assert kafka.history.requests
        """
    )
    outcome = run(pytester, "-rN")
    outcome.assert_outcomes(failed=3)
    hold, condition, assertion = re.split(r"_ test_\w+ _", outcome.stdout.str())[1:]
    assert hold.count("Group billing is Stable") == 1
    assert hold.count("No client has sent a request") == 1
    assert condition.count("No client has sent a request") == 1
    assert assertion.count("No client has sent a request") == 1


def test_the_unused_faults_of_all_brokers_are_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_that_fails(kafka, kafka_cluster):
            for number, each in enumerate([kafka, kafka_cluster(nodes=1), kafka_cluster(nodes=1)]):
                each.faults.drop("Heartbeat", group=f"group-{number}")
    """)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    for number in range(3):
        result.stdout.fnmatch_lines([f"*Heartbeat (group group-{number})*"])
