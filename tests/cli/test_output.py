"""Output that several commands share."""

import pytest
from kohort.cli.output import write_csv


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_text_that_begins_like_a_formula_is_marked_as_text(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(["name", "lag", "end"], [[text, -1, None], ["a=b", 2, None]])
    assert capsys.readouterr().out == f"name,lag,end\n'{text},-1,\na=b,2,\n"
