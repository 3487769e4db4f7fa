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
