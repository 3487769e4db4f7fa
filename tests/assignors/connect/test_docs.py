"""The example of the docs is run."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "assignors.md"


def test_the_rounds_that_the_docs_show_end_as_they_say() -> None:
    section = PAGE.read_text().split("## Kafka Connect\n")[1].split("\n## ")[0]
    (program,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert program.count("assert ") == 4
    exec(program, {})
