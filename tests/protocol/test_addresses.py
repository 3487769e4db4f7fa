import pytest
from kohort.protocol.addresses import address


@pytest.mark.parametrize(
    ("host", "said"),
    [("127.0.0.1", "127.0.0.1:9092"), ("kafka", "kafka:9092"), ("::1", "[::1]:9092")],
)
def test_an_ipv6_number_is_kept_apart_from_its_port(host: str, said: str) -> None:
    assert address(host, 9092) == said
