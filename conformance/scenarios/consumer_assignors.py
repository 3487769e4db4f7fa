"""Server assignors of KIP-848 groups, and the interval between assignments (KIP-1263)."""

from ..members import ConsumerMember, subscribed
from ..scenario import consumer_scenario, scenario
from ..script import Script


@consumer_scenario("assignor: the one that most members request")
async def the_assignor_of_the_majority_is_used(s: Script) -> None:
    b = s.consumer("B", "shipments", server_assignor="uniform")
    c = s.consumer("C", "shipments", server_assignor="range")
    a = await s.consumer("A", "shipments", server_assignor="range").joined()
    await s.describe_consumers()
    await b.join(server_assignor=None)
    await s.describe_consumers()
    await b.heartbeat(server_assignor="uniform")
    await c.join()
    await s.describe_consumers()
    await s.converge(a, b, c)
    await s.describe_consumers()


@consumer_scenario("assignor: on a tie, the one requested by the member that sends the heartbeat")
async def two_consumers_name_different_assignors(s: Script) -> None:
    """The previous target assignments make the results of the two assignors differ."""
    a = await s.consumer("A", "unknown", server_assignor="range").joined()
    b = await s.consumer("B", "orders", "shipments", server_assignor="uniform").joined()
    await s.describe_consumers()
    await a.heartbeat(owned={}, subscribed_topic_names=("orders", "shipments", "unknown"))
    await s.describe_consumers()
    await b.heartbeat(subscribed_topic_names=("shipments",))
    await s.describe_consumers()


@consumer_scenario("assignor: the one requested second, as long as each is requested once")
async def a_consumer_names_an_assignor_before_another(s: Script) -> None:
    a = s.consumer("A", "shipments", server_assignor="uniform")
    b = s.consumer("B", "payments", "shipments", server_assignor="range")
    c = s.consumer("C", "orders", "shipments", server_assignor="uniform")
    for member in (a, b, c):
        await member.join()
        await s.describe_consumers()
    await b.heartbeat(subscribed_topic_names=("orders", "payments", "shipments"))
    await s.describe_consumers()


@consumer_scenario("assignor: the default if no member requests one")
async def no_consumer_names_an_assignor(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B", server_assignor="range")
    await a.join()
    await s.describe_consumers()
    await b.join()
    await s.describe_consumers()
    await b.leave()
    await s.describe_consumers()


@consumer_scenario("assignor: a change alone triggers no assignment")
async def the_assignor_changes(s: Script) -> None:
    topic = await s.topic(3, "first")
    other = await s.topic(3, "second")
    a, b = await s.consumers("A", "B", topics=(topic, other), server_assignor="range")
    await s.converge(a, b)
    await s.describe_consumers()
    await a.heartbeat(server_assignor="uniform")
    await b.heartbeat(server_assignor="uniform")
    await s.describe_consumers()


@consumer_scenario("assignor: range assigns the same partitions of several topics")
async def range_of_several_topics(s: Script) -> None:
    topic = await s.topic(2)
    names = (topic, "orders")
    a = await s.consumer("A", *names, server_assignor="range").joined()
    b = await s.consumer("B", *names, server_assignor="range").joined()
    await s.converge(a, b)
    await s.describe_consumers()


@consumer_scenario("assignor: range, with subscriptions that differ")
async def range_of_different_subscriptions(s: Script) -> None:
    a = await s.consumer("A", "orders", "shipments", server_assignor="range").joined()
    b = await s.consumer("B", "shipments", server_assignor="range").joined()
    c = await s.consumer("C", "orders", "payments", server_assignor="range").joined()
    await s.converge(a, b, c)
    await s.describe_consumers()


@consumer_scenario("assignor: range, a new member without topics also gets partitions")
async def range_of_a_consumer_without_topics(s: Script) -> None:
    """B causes the first assignment since C, another member without topics, left the group."""
    a = s.consumer("A", "orders", "shipments", server_assignor="range")
    b = s.consumer("B", subscribed_topic_names=(), server_assignor="range")
    c = s.consumer("C", subscribed_topic_names=(), server_assignor="range")
    await c.join()
    await a.join()
    await c.leave()
    await b.join()
    await s.describe_consumers()
    await s.converge(a, b)
    await s.describe_consumers()


@consumer_scenario("assignor: range, fewer partitions than members")
async def range_of_fewer_partitions_than_consumers(s: Script) -> None:
    members = [s.consumer(name, server_assignor="range") for name in "ABC"]
    for member in reversed(members):
        await member.join()
    await s.converge(*members)
    await s.describe_consumers()


@consumer_scenario("assignor: with uniform, members keep their partitions")
async def uniform_keeps_partitions(s: Script) -> None:
    c = s.consumer("C", "shipments")
    a, b = await s.consumers("A", "B", topics=("shipments",))
    await s.converge(a, b)
    await c.join()
    await s.converge(a, b, c)
    await s.describe_consumers()
    await b.leave()
    await c.leave()
    await a.report()
    await s.describe_consumers()


@consumer_scenario("assignor: uniform, with subscriptions that differ")
async def uniform_of_different_subscriptions(s: Script) -> None:
    a = await s.consumer("A", "shipments", "payments").joined()
    b = await s.consumer("B", "shipments").joined()
    await s.converge(a, b)
    await s.describe_consumers()


@consumer_scenario("interval: a second assignment waits; the group is Assigning")
async def an_assignment_waits_for_the_interval(s: Script) -> None:
    await s.configure(assignment_interval_ms="3000")
    a, b, c = (s.consumer(name, "shipments", server_assignor="range") for name in "ABC")
    await a.join()
    await s.describe_consumers()
    await b.join()
    await s.describe_consumers()
    await c.join()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()
    await s.pass_ms(4000)
    await s.describe_consumers()
    await b.heartbeat()
    await s.describe_consumers()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("interval: a member that leaves triggers no assignment")
async def a_consumer_leaves_within_the_interval(s: Script) -> None:
    await s.configure(assignment_interval_ms="3000")
    a, b = await s.consumers("A", "B")
    await a.leave()
    await s.describe_consumers()
    await b.heartbeat()
    await s.pass_ms(4000)
    await b.heartbeat()
    await s.describe_consumers()
    await b.leave()
    await s.describe_consumers()
    await b.join()
    await s.describe_consumers()


@consumer_scenario("interval: a member without an assignment leaves")
async def a_waiting_consumer_leaves_within_the_interval(s: Script) -> None:
    await s.configure(assignment_interval_ms="3000")
    a, b = await s.consumers("A", "B")
    await b.leave()
    await a.heartbeat()
    await s.describe_consumers()
    await s.pass_ms(4000)
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("interval: a returning static member immediately gets its assignment")
async def a_static_consumer_returns_within_the_interval(s: Script) -> None:
    await s.configure(assignment_interval_ms="10000")
    a = await s.consumer("A", instance="i1").joined()
    b = await s.consumer("B", instance="i2").joined()
    await a.leave(-2)
    await s.consumer("A2", instance="i1").join()
    await s.describe_consumers()
    await b.leave(-2)
    await s.consumer("B2", "payments", instance="i2").join()
    await s.describe_consumers()


@consumer_scenario("interval: once it is disabled, the next heartbeat triggers an assignment")
async def the_interval_ends_when_it_is_configured(s: Script) -> None:
    await s.configure(assignment_interval_ms="15000")
    a, _ = await s.consumers("A", "B")
    await s.describe_consumers()
    await s.configure(assignment_interval_ms="0")
    await a.heartbeat()
    await s.describe_consumers()


@scenario("offload: assignments computed in another thread are the same")
async def an_assignment_is_computed_in_another_thread(s: Script) -> None:
    await s.configure(assignment_interval_ms="0")
    a, b = s.consumer("A"), s.consumer("B")
    await a.join()
    await s.until_assigned(2)
    await s.describe_consumers()
    await a.heartbeat()
    await b.join()
    await s.until_assigned(3)
    await a.heartbeat()
    await a.report()
    await b.heartbeat()
    await s.describe_consumers()


async def subscribed_otherwise(s: Script) -> ConsumerMember:
    """Create a group with homogeneous subscriptions, and return a member without topics that has
    not joined it yet."""
    a = s.consumer("A", "orders", "unknown")
    b, c = (s.consumer(name, subscribed_topic_names=()) for name in "BC")
    await c.join()
    await a.join()
    await c.leave()
    return b


@consumer_scenario("a group still counts as homogeneous after a topic has been created")
async def another_topic_is_created_before_a_consumer_joins(s: Script) -> None:
    b = await subscribed_otherwise(s)
    await s.topic(1)
    await b.join()
    await s.describe_consumers()


@consumer_scenario("a group still counts as homogeneous after it has been configured")
async def a_group_is_configured_before_a_consumer_joins(s: Script) -> None:
    b = await subscribed_otherwise(s)
    await s.configure(assignment_interval_ms="0")
    await b.join()
    await s.describe_consumers()


@consumer_scenario("a group still counts as homogeneous after a regex has been resolved")
async def a_regex_is_resolved_before_a_consumer_joins(s: Script) -> None:
    options = {"subscribed_topic_names": None, "server_assignor": "range"}
    b = s.consumer("B", subscribed_topic_regex="order.", **options)
    await s.consumer("A", subscribed_topic_regex="ship.*", **options).join()
    await s.until_epoch(2)
    await b.join()
    await s.describe_consumers()


@consumer_scenario("a group with a resolved regex still counts as homogeneous for a classic member")
async def a_regex_is_resolved_before_a_classic_member_joins(s: Script) -> None:
    # Kafka stores members in a hash table, in whose order no member id precedes "P".
    b = s.member("B", protocols=subscribed())
    a = await s.consumer("P", subscribed_topic_names=None, subscribed_topic_regex="order.").joined()
    await s.until_epoch(2)
    await b.enter()
    await a.heartbeat(owned={})
    await b.sync()
    await s.describe_consumers()
