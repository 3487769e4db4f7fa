"""The plugin in a pytest of its own: what its user sees."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester.runpytest_inprocess("-p", "no:randomly", *options)


def test_a_fault_that_never_fires_fails_its_test_and_no_other(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_with_a_typing_error_in_its_group(kafka):
            kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", group="biling")

        def test_of_something_else(kafka):
            assert kafka.faults.all == []
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*UnusedFault: a fault of this test has not fired.*", "*OffsetCommit (group biling)*"]
    )


def test_a_test_that_fails_by_itself_is_not_blamed_for_its_faults(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        def test_something(kafka):
            kafka.faults.drop("OffsetCommit")
            assert kafka.bootstrap_servers == "elsewhere"
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*UnusedFault*")


def test_each_test_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
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


def test_nothing_heavy_is_imported_before_a_test_asks_for_a_broker(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import kohort.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kohort", "kohort.testing", "kohort.testing.plugin"]
