"""Regular expressions that are slow to compile."""

import pytest

from .conftest import FULL

SIZE = 32_000 if FULL else 8_000


@pytest.mark.parametrize("size", [SIZE, 995], ids=["long", "compiled"])
@pytest.mark.parametrize("part", ["[\0-\uffff]", "(?:a|b)*"], ids=["class", "repetition"])
def test_a_pattern_that_is_slow_to_compile(attack, part, size):
    target = attack()
    pattern = "(?i)" + part * (size // len(part.encode()))
    with target.client() as client:
        for _ in range(5):
            response = client.call("ListTransactions", 2, transactional_id_pattern=pattern)
            assert response["error_code"] == "none"
