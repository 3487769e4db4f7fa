"""The programs of a page are one test module, which passes."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.clients
@pytest.mark.parametrize(
    "page",
    ["testing.md", "consumer-protocol.md", "transactions.md", "security.md", "coming-from.md"],
)
def test_the_programs_of_a_page_run(pytester: pytest.Pytester, page: str) -> None:
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    pytester.makepyfile("\n\n".join(blocks))
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n"
    )
    # A process of its own: cryptography cannot be imported twice, which security.md would cause.
    result = pytester.runpytest_subprocess()
    tests = "\n".join(blocks).count("def test_")
    result.assert_outcomes(passed=tests + (page == "coming-from.md"))  # one has two parameters
