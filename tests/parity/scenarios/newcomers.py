"""The initial delay of three seconds, and groups that take two members at most."""

from ..registry import scenario
from ..script import Script


@scenario(
    "initial delay, trap 6: the first round is over when time is, not when all are there",
    settings="delayed",
)
async def the_first_round_waits_for_more(s: Script) -> None:
    a = s.member("A")
    await a.enter()
    await s.describe()
    await s.pass_ms(1500)
    await s.until_freed()
    await s.describe()


@scenario("initial delay, trap 5: a newcomer extends it once", settings="delayed")
async def a_newcomer_extends_the_first_round(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await s.pass_ms(1000)
    await b.enter()
    await s.pass_ms(2500)
    await s.until_freed()


@scenario("initial delay, trap 5: not beyond the rebalance timeout", settings="delayed")
async def the_first_round_ends_with_the_rebalance_timeout(s: Script) -> None:
    a, b = s.member("A", rebalance_ms=4500), s.member("B", rebalance_ms=60_000)
    await a.enter()
    await b.enter()
    await s.until_freed()


@scenario("initial delay: who leaves before its end leaves an empty group", settings="delayed")
async def the_only_newcomer_leaves_before_the_first_round_is_over(s: Script) -> None:
    a = s.member("A")
    await a.enter()
    await a.leave()
    await s.describe()
    await s.until_state("Empty")
    await s.describe()
    await a.join()
    await s.member("B").enter()
    await s.until_freed()


@scenario("initial delay: a commit and a sync meanwhile", settings="delayed")
async def requests_during_the_first_round(s: Script) -> None:
    a = s.member("A")
    await a.enter()
    await a.heartbeat(generation_id=0)
    await a.commit(1, generation_id_or_member_epoch=0)
    await a.sync({a: "1"}, generation_id=0)
    await a.commit(2, member_id="", generation_id_or_member_epoch=-1)
    await s.fetch()
    await s.until_freed()


@scenario("initial delay: an emptied group waits again", settings="delayed")
async def an_emptied_group_waits_for_newcomers_again(s: Script) -> None:
    a = s.member("A")
    await a.enter()
    await s.until_freed()
    await a.sync({a: "1"})
    await a.leave()
    b = s.member("B")
    await b.enter()
    await s.describe()
    await s.until_freed()


@scenario("size, trap 14: the third of two is refused in every state", settings="delayed")
async def a_full_group_refuses_more(s: Script) -> None:
    a, b, c = s.member("A"), s.member("B"), s.member("C")
    await a.join()
    await b.join()
    await c.join()
    await a.join()
    await b.join()
    await c.join()
    await s.member("D").join()
    await s.until_freed()
    await c.join(member_id="")
    await s.member("D", instance="i1").join()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await s.member("D").join(3)
    await s.describe()
    await a.join()
    await b.join()


@scenario(
    "size: members of a full group may join again; a static one may be replaced", settings="delayed"
)
async def a_full_group_takes_its_own_again(s: Script) -> None:
    a, b = s.member("A"), s.member("B", instance="i1")
    await a.enter()
    await b.join()
    await s.until_freed()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await b.join()
    await s.member("B", instance="i1").join()
    await s.describe()


@scenario("size: pending ids do not count until they join; trap 4", settings="delayed")
async def pending_ids_do_not_fill_a_group(s: Script) -> None:
    members = [s.member(name) for name in "ABC"]
    for member in members:
        await member.join()
    for member in members:
        await member.join()
    await s.until_freed()
    await members[2].heartbeat(generation_id=1)
    await members[2].join()


@scenario(
    "size: a round whose last member is refused waits for its end, with nobody to wait for",
    settings="delayed",
)
async def a_member_that_comes_back_too_late_to_a_full_round(s: Script) -> None:
    a, b, c = s.member("A", rebalance_ms=5000), s.member("B", rebalance_ms=5000), s.member("C")
    await a.enter()
    await b.enter()
    await s.until_freed()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await a.join()
    await c.enter()
    await b.join()
    await s.describe()
    await s.until_freed()
    await a.heartbeat()
    await s.describe()
