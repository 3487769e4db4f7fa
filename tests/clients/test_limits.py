"""A broker that waits for latecomers and lets no more than three into a group."""

from collections.abc import Callable, Iterator

import pytest
from support.broker_process import EXTERNAL, overrides, serving

from .adapter import Client
from .driven import Driven
from .stories import Audience, places, refusal_of, until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
GROUP_MAX_SIZE_REACHED = 81
LIMITS = (
    "group.initial.rebalance.delay.ms=1000",
    "group.max.size=3",
    "group.min.session.timeout.ms=1000",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a broker of our own: these are its settings."""
    if EXTERNAL:
        pytest.skip("needs a broker with these limits")
    with serving(
        tmp_path_factory.mktemp("broker"), "--port", "0", "--durability", "none", *overrides(LIMITS)
    ) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0


def test_members_that_start_together_share_in_the_first_round_and_a_full_group_takes_no_more(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    audience = Audience(*(consumer(group) for _ in range(3)))
    for member in audience.consumers:
        member.subscribe(topic)
    audience.until_shared(places(topic, 6), [2, 2, 2])
    assert [member.rebalances for member in audience.consumers] == [1, 1, 1]

    fourth = consumer(group)
    fourth.subscribe(topic)
    until(lambda: fourth.failure is not None, "the fourth is refused")
    if client.name != "aiokafka":  # which does not know this error: "unexpected"
        assert refusal_of(fourth) == GROUP_MAX_SIZE_REACHED
    assert [member.rebalances for member in audience.consumers] == [1, 1, 1]
    audience.until_shared(places(topic, 6), [2, 2, 2])
