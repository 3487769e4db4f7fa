"""Values of topic configurations that are slow to parse."""

import pytest

from .conftest import FULL

SIZE = 32_000 if FULL else 8_000


@pytest.mark.parametrize(
    "value", ["1" * SIZE + "x", "," + " " * SIZE + "x"], ids=["decimal", "list"]
)
def test_a_value_that_is_slow_to_parse(attack, value):
    target = attack()
    with target.client() as client:
        topic = {
            "name": "orders",
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [
                {"name": "min.cleanable.dirty.ratio", "value": value},
                {"name": "cleanup.policy", "value": value},
            ],
        }
        response = client.call("CreateTopics", 7, topics=[topic], validate_only=True)
        assert response["topics"][0]["error_code"] == "invalid_config"
