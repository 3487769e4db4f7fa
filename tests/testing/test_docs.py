"""The programs in docs/testing.md are one test module, which passes."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


@pytest.mark.clients
def test_the_programs_in_testing_md_run(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    pytester.makepyfile("\n\n".join(blocks))
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed="\n".join(blocks).count("def test_"))
