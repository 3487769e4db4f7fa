"""KIP-848 groups with regular expressions."""

from ..members import ConsumerMember
from ..scenario import consumer_scenario
from ..script import Script


def matching(s: Script, name: str, pattern: str, **options: str) -> ConsumerMember:
    """Return a member whose only subscription is the pattern."""
    options = {"subscribed_topic_names": None, "subscribed_topic_regex": pattern, **options}
    return s.consumer(name, **options)


async def resolved(s: Script, pattern: str, **options: str) -> ConsumerMember:
    """Return the first member of a group, once it has the topics that match the pattern."""
    a = await matching(s, "A", pattern, **options).joined()
    await s.until_epoch(2)
    await a.heartbeat()
    return a


@consumer_scenario("regex: topics that match are assigned once it is resolved")
async def a_consumer_subscribes_by_regex(s: Script) -> None:
    a = await matching(s, "A", "orders|payments").joined()
    await s.until_epoch(2)
    await s.describe_consumers(0)
    await s.describe_consumers(1)
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: invalid expressions, at epoch 0 and later")
async def consumers_with_invalid_regexes(s: Script) -> None:
    a = await s.consumer("A").joined()
    for pattern in (
        *("(", "[", "*", "\\", "(?=x)", "\\p{Nonsense}", "a**", "(o)\\1", "a{2,1}"),
        *("(?P<n>o)(?<n>r)", "orders\\C", "(?P<é>o)"),
    ):
        await matching(s, "B", pattern).join()
        await a.heartbeat(subscribed_topic_regex=pattern)
    await s.describe_consumers()


@consumer_scenario("regex: the syntax of RE2/J")
async def consumers_with_unusual_regexes(s: Script) -> None:
    for number, pattern in enumerate(
        (
            "(?i)ORDERS",
            "(?P<n>orders)",
            "(?<n>orders)",
            "\\Qorders\\E",
            "ord\\w+",
            "^orders$",
            "o.{5}",
        )
    ):
        group = f"{s.group}/{number}"
        a = matching(s, "A", pattern)
        await a.join(group_id=group)
        await s.until_epoch(2, group)
        await a.heartbeat(group_id=group)


@consumer_scenario("regex: the whole name of a topic must match")
async def a_regex_matches_whole_names(s: Script) -> None:
    a = await matching(s, "A", "order|rders").joined()
    await s.pass_ms(1000)
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: an empty expression counts as none")
async def a_consumer_with_an_empty_regex(s: Script) -> None:
    await s.consumer("A", subscribed_topic_regex="").join()
    await s.describe_consumers()
    b = await matching(s, "B", "").joined()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: with names as well, the topics of both are assigned")
async def a_consumer_subscribes_by_regex_and_names(s: Script) -> None:
    a = await s.consumer("A", "payments", subscribed_topic_regex="order.").joined()
    await s.until_epoch(3)
    await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(subscribed_topic_regex="")
    await a.heartbeat(owned={"payments": [0]})
    await s.describe_consumers()


@consumer_scenario("regex: a change of the pattern")
async def a_consumer_changes_its_regex(s: Script) -> None:
    a = await resolved(s, "order.")
    await a.heartbeat(subscribed_topic_regex="order.")
    await a.heartbeat(subscribed_topic_regex="payment.")
    await s.describe_consumers()
    await s.pass_ms(10_500)
    await a.heartbeat(owned={})
    await s.until_epoch(3)
    await a.heartbeat()
    await a.heartbeat(owned={})
    await s.describe_consumers()


@consumer_scenario("regex: an unrelated topic is created before a changed pattern is resolved")
async def an_unrelated_topic_does_not_bump_the_epoch(s: Script) -> None:
    a = await s.consumer("A", "payments", subscribed_topic_regex="order.").joined()
    await s.until_epoch(3)
    await a.heartbeat()
    await a.heartbeat(subscribed_topic_regex="shipment.", owned={"payments": [0]})
    await s.topic(1)
    await a.heartbeat()
    await s.until_epoch(4)
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: from names to a pattern and back")
async def a_consumer_changes_from_names_to_a_regex(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.heartbeat(subscribed_topic_names=(), subscribed_topic_regex="order.")
    await s.until_epoch(4)
    await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(subscribed_topic_names=("orders",), subscribed_topic_regex="")
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: a second member with the same pattern immediately has its topics")
async def two_consumers_with_the_same_regex(s: Script) -> None:
    a = await resolved(s, "order.")
    b = await matching(s, "B", "order.").joined()
    await s.describe_consumers()
    await s.converge(a, b)
    await s.describe_consumers()
    await b.leave()
    await a.leave()
    await s.describe_consumers()


@consumer_scenario("regex: two members with different patterns")
async def two_consumers_with_different_regexes(s: Script) -> None:
    await resolved(s, "order.")
    b = await matching(s, "B", "payment.").joined()
    await s.describe_consumers()
    await s.pass_ms(10_500)
    await b.heartbeat()
    await s.until_epoch(3)
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: version 0 has no pattern")
async def a_consumer_with_a_regex_sends_version_0(s: Script) -> None:
    a = await matching(s, "A", "order.").joined()
    await s.until_epoch(2)
    await a.heartbeat(0)
    await s.describe_consumers()
    await a.heartbeat(0, subscribed_topic_names=("payments",))
    await s.describe_consumers()


@consumer_scenario("regex: a topic that is created later matches after a refresh")
async def a_topic_matches_a_regex_later(s: Script) -> None:
    await s.topic(1, "first")
    a = await resolved(s, f"{s.group}.(first|second)")
    await s.topic(1, "second")
    await a.heartbeat()
    await s.describe_consumers()
    await s.pass_ms(10_500)
    await a.heartbeat()
    await s.until_epoch(3)
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: a topic that is deleted")
async def a_topic_of_a_regex_is_deleted(s: Script) -> None:
    topic = await s.topic(1)
    a = await resolved(s, f"{s.group}.*")
    await s.delete_topic(topic)
    await a.heartbeat()
    await a.heartbeat(owned={})
    await s.describe_consumers()


@consumer_scenario("regex: kept by a static member that leaves with -2 and returns under a new id")
async def a_static_consumer_with_a_regex_returns(s: Script) -> None:
    a = await resolved(s, "order.", instance="i1")
    await a.leave(-2)
    await s.describe_consumers()
    await matching(s, "A2", "order.", instance="i1").join()
    await s.describe_consumers()


@consumer_scenario("regex: from a pattern without matches to a pattern with matches")
async def a_consumer_without_partitions_changes_its_regex(s: Script) -> None:
    a = await matching(s, "A", "nothing.*").joined()
    await s.pass_ms(1000)
    await a.heartbeat(subscribed_topic_regex="order.")
    await s.pass_ms(10_500)
    await a.heartbeat()
    await s.until_epoch(2)
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("regex: added to the name of an unknown topic, as the only change")
async def a_consumer_of_an_unknown_topic_adds_a_regex(s: Script) -> None:
    a = await s.consumer("A", "unknown").joined()
    await a.heartbeat(subscribed_topic_regex="order.")
    await s.until_epoch(3)
    await a.heartbeat()
    await s.describe_consumers()
