"""Which brokers the plugin takes for those of a test, and how long."""

import pytest

from .test_plugin import run

pytest_plugins = ["pytester"]

AGAIN = """
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
"""A conftest that runs again what has failed, as pytest-rerunfailures does it."""


def test_a_test_that_is_run_again_hears_nothing_of_its_first_broker(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(AGAIN)
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


def test_a_run_keeps_no_broker_of_a_test_that_is_over(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import gc
        import weakref

        import pytest

        made = []

        @pytest.mark.parametrize("number", range(3))
        def test_of_a_broker(kafka, number):
            made.append(weakref.ref(kafka.history))

        def test_after_them():
            gc.collect()
            assert [each() for each in made] == [None, None, None]
        """
    )
    run(pytester).assert_outcomes(passed=4)


def test_a_test_whose_setup_fails_is_on_the_page_of_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def service(kafka):
            kafka.puppet("billing", topics=["orders"])
            raise ConnectionError("the service has not started")

        def test_something(kafka, service):
            pass
        """
    )
    run(pytester, "--kafka-timeline=run.html").assert_outcomes(errors=1)
    drawn = (pytester.path / "run.html").read_text()
    assert "1 test with a broker, 1 failed" in drawn
    assert "<figcaption>billing</figcaption>" in drawn


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


def test_a_failed_test_is_told_its_own_part_of_a_broker_that_it_shares(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(SHARED)
    pytester.makepyfile(
        """
        def test_first(kafka):
            kafka.puppet("billing", topics=["orders"], client_id="first")

        def test_second(kafka):
            kafka.puppet("shipping", topics=["orders"], client_id="second")
            assert kafka.group("billing").state == "Stable"
            assert False

        def test_of_an_older_group(kafka):
            kafka.puppet("billing", topics=["orders"], client_id="third")
        """
    )
    result = run(pytester, "--kafka-timeline=run.html")
    result.assert_outcomes(passed=2, failed=1)
    text = result.stdout.str()
    assert text.count("- kafka -") == 1
    happened = text[text.index("what happened") :]
    assert "JoinGroup v9 shipping by second-" in happened
    assert "first-" not in happened
    failed, first, older = (pytester.path / "run.html").read_text().split("<details ")[1:]
    assert ("billing" in failed, "shipping" in failed) == (False, True)
    assert ("billing" in first, "shipping" in first) == (True, False)
    # Who was there before is in the picture.
    assert (">first<" in older, ">third<" in older) == (True, True)


def test_a_fault_of_a_test_meets_nobody_after_it_on_a_broker_that_they_share(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(SHARED)
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def slow(shared):
            return shared.faults.delay("Heartbeat", ms=1, times=None)

        def test_that_sets_none_off(kafka, slow):
            kafka.faults.drop("OffsetCommit")

        def test_that_fails(kafka, slow):
            kafka.faults.drop("OffsetCommit")
            assert False

        def test_after_them(kafka, slow):
            assert kafka.faults.all == [slow]
            slow.cancel()
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["E * a fault of this test has not fired.", "E * assert False"])
