"""The programs of each page are one test module, which passes."""

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[2] / "docs"


PAGES = ["testing.md", "consumer-protocol.md", "transactions.md", "security.md", "coming-from.md"]


@pytest.mark.clients
def test_the_programs_of_each_page_run(pytester: pytest.Pytester) -> None:
    modules = {}
    for page in PAGES:
        text = (DOCS / page).read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        modules["test_" + page.removesuffix(".md").replace("-", "_")] = "\n\n".join(blocks)
    pytester.makepyfile(**modules)
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n"
    )
    # A separate process, because security.md would import cryptography a second time, which fails.
    result = pytester.runpytest_subprocess()
    tests = sum(each.count("def test_") for each in modules.values())
    result.assert_outcomes(passed=tests + 1)  # one of coming-from.md has two parameters
