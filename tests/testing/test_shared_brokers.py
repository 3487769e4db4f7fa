"""Brokers of rerun tests, of failed setups, and brokers shared by several tests."""

import pytest

from .test_plugin import run

pytest_plugins = ["pytester"]

RERUN = """
    import pytest
    from _pytest.runner import runtestprotocol

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(item, nextitem):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for attempt in (1, 2):
            item._initrequest()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            if not any(each.failed for each in reports):
                break
        for each in reports:
            item.ihook.pytest_runtest_logreport(report=each)
        return True
"""
"""A conftest that reruns failed tests like pytest-rerunfailures."""


def test_a_rerun_test_does_not_report_its_first_broker(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(RERUN)
    pytester.makepyfile(
        """
        attempts = []

        def test_that_fails_once(kafka):
            attempts.append(kafka)
            if len(attempts) == 1:
                kafka.faults.drop("OffsetCommit")
                assert False
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_brokers_of_finished_tests_are_freed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import gc
        import weakref

        import pytest

        created = []

        @pytest.mark.parametrize("number", range(3))
        def test_of_a_broker(kafka, number):
            created.append(weakref.ref(kafka.history))

        def test_after_them():
            gc.collect()
            assert [each() for each in created] == [None, None, None]
        """
    )
    run(pytester).assert_outcomes(passed=4)


def test_a_test_with_a_failed_setup_is_on_the_timeline_page(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def service(kafka):
            kafka.fake_member("billing", topics=["orders"])
            raise ConnectionError("the service has not started")

        def test_something(kafka, service):
            pass
        """
    )
    run(pytester, "--kafka-timeline=run.html").assert_outcomes(errors=1)
    html = (pytester.path / "run.html").read_text()
    assert "1 test with a broker, 1 failed" in html
    assert "<figcaption>billing</figcaption>" in html


SHARED = """
    import pytest
    from kohort.testing import Kafka

    @pytest.fixture(scope="session")
    def shared():
        with Kafka() as kafka:
            yield kafka

    @pytest.fixture
    def kafka(shared):
        return shared
"""


def test_the_report_of_a_shared_broker_begins_with_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(SHARED)
    pytester.makepyfile(
        """
        def test_first(kafka):
            kafka.fake_member("billing", topics=["orders"], client_id="first")
            kafka.group("billing").wait_stable()

        def test_second(kafka):
            kafka.fake_member("shipping", topics=["orders"], client_id="second")
            assert kafka.group("billing").state == "Stable"
            assert False

        def test_of_an_older_group(kafka):
            kafka.fake_member("billing", topics=["orders"], client_id="third")
        """
    )
    result = run(pytester, "--kafka-timeline=run.html")
    result.assert_outcomes(passed=2, failed=1)
    text = result.stdout.str()
    assert text.count("- kafka -") == 1
    timeline = text[text.index("timeline (seconds") :]
    assert "JoinGroup v9 shipping by second-" in timeline
    assert "first-" not in timeline
    failed, first, older = (pytester.path / "run.html").read_text().split("<details ")[1:]
    assert ("billing" in failed, "shipping" in failed) == (False, True)
    assert ("billing" in first, "shipping" in first) == (True, False)
    # Members that joined in an earlier test are drawn.
    assert (">first<" in older, ">third<" in older) == (True, True)


def test_a_fault_on_a_shared_broker_ends_with_its_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(SHARED)
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def slow(shared):
            shared.transactions.hold_markers("of-the-fixture")
            return shared.faults.delay("Heartbeat", ms=1, times=None)

        def test_that_sets_none_off(kafka, slow):
            kafka.faults.drop("OffsetCommit")

        def test_that_holds_nothing(kafka, slow):
            kafka.transactions.hold_markers("billing-1")

        def test_that_fails(kafka, slow):
            kafka.faults.drop("OffsetCommit")
            assert False

        def test_after_them(kafka, slow):
            assert kafka.faults.all == [slow]
            assert len(kafka.faults.checked) == 2
            kafka.faults.clear()
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(
        [
            "unused fault at the end of the test",
            "unused fault at the end of the test",
            "markers (transactional_id billing-1): held back, fired 0",
            "E * assert False",
        ]
    )


def test_a_disk_fault_on_a_shared_broker_ends_with_its_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(SHARED)
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def full(shared):
            return shared.disk.fill(topic="of-the-fixture")

        def test_that_passes(kafka, full):
            orders = kafka.topic("orders", partitions=1)
            kafka.disk.fill(topic="orders")
            with pytest.raises(Exception, match="No space left"):
                orders.produce(["a"])

        def test_that_sets_none_off(kafka, full):
            kafka.topic("orders").produce(["b"])
            kafka.disk.fail("remove")

        def test_that_fails(kafka, full):
            kafka.disk.tear(topic="orders")
            kafka.topic("orders").produce(["c"])

        def test_after_them(kafka, full):
            assert kafka.disk.all == [full]
            kafka.topic("orders").produce(["d"])
            assert [each.value for each in kafka.topic("orders").records()] == [b"b", b"d"]
            kafka.faults.clear()
            kafka.topic("of-the-fixture", partitions=1).produce(["a"])
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines(
        ["disk: remove fails with EIO: Input/output error, fired 0", "E *kafka_storage_error*"]
    )
