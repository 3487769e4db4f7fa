"""JoinGroup, and how a round of joining ends."""

from ..registry import scenario
from ..script import Script

BOTH = (("range", b"r"), ("sticky", b"s"))


@scenario("JoinGroup 4e: a dynamic member is given an id first; trap 28: the group is there then")
async def a_newcomer_is_told_its_id_first(s: Script) -> None:
    a = s.member("A")
    await s.describe()
    await a.join()
    await s.describe()
    await s.list()
    await a.join()
    await s.describe()


@scenario("JoinGroup fields: every version, with the second step from 4 on; trap 26: null or empty")
async def every_version_joins(s: Script) -> None:
    for version in range(10):
        await s.member(f"V{version}").enter(version, group_id=f"{s.group}/v{version}")


@scenario("JoinGroup errors carry null, empty and -1 as their version does; trap 26")
async def every_version_refuses(s: Script) -> None:
    for version in range(10):
        await s.member("A").join(version, member_id="stranger")


@scenario("JoinGroup 2: a group is not made for a member that has an id already")
async def an_id_makes_no_group(s: Script) -> None:
    await s.member("A").join(member_id="stranger")
    await s.describe()
    await s.list()


@scenario("JoinGroup 5d: a group does not know a stranger's id")
async def a_stranger_is_refused_by_a_group_that_lives(s: Script) -> None:
    await s.stable("A")
    await s.member("B").join(member_id="stranger")
    await s.describe()


@scenario("supports(): an empty group needs a protocol type and a protocol; trap 28")
async def a_first_join_without_protocols_is_refused_and_leaves_a_group(s: Script) -> None:
    a = s.member("A")
    await a.join(protocols=())
    await s.describe()
    await a.join(protocol_type="", group_id=f"{s.group}/typeless")
    await s.list()


@scenario("supports(): the type of the group, and a protocol that all members list")
async def members_must_have_a_protocol_in_common(s: Script) -> None:
    (a,) = await s.stable("A", protocols=BOTH)
    await s.member("B").join(protocol_type="connect")
    await s.member("B").join(protocols=(("cooperative", b"c"),))
    await s.member("B").join(3, protocols=(("cooperative", b"c"),))
    await a.join(protocol_type="connect")
    await a.join(protocols=(("cooperative", b"c"),))
    await a.heartbeat()
    await s.describe()


@scenario("vote: of what all list, what most prefer; each metadata is that of the chosen protocol")
async def the_protocol_is_voted_for(s: Script) -> None:
    a = s.member("A", protocols=(*BOTH, ("zigzag", b"z")))
    b = s.member("B", protocols=(("zigzag", b"z2"), ("sticky", b"s2"), ("range", b"r2")))
    c = s.member("C", protocols=(("sticky", b"s3"), ("range", b"r3")))
    await a.enter()
    await b.enter()
    await a.join()
    await c.enter()
    await a.join()
    await b.join()
    await a.sync({a: "1"}, protocol_name="sticky")
    await s.describe()


@scenario("trap 12: a second join of an id takes the place of the first, which is never answered")
async def a_join_that_is_repeated_is_answered_once(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await a.join(protocols=(("range", b"new"),))
    await b.join()
    await s.describe()


@scenario("JoinGroup 5e, CompletingRebalance, same protocols: the generation at once")
async def a_join_while_syncs_are_missing_is_answered_again(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await a.join()
    await b.join()
    await s.describe()
    await b.sync()
    await b.join()
    await a.sync({a: "1", b: "2"})


@scenario("JoinGroup 5e, CompletingRebalance, changed: a new round, parked syncs are told")
async def a_changed_join_while_syncs_are_missing_starts_again(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await a.join(protocols=(("range", b"new"),))
    await s.describe()
    await b.heartbeat()
    await b.join()


@scenario("JoinGroup 5e, Stable: a leader may always force a round")
async def a_leader_that_joins_again_starts_a_round(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await s.describe()
    await b.heartbeat()
    await b.join()
    await s.describe()


@scenario("JoinGroup 5e, Stable: a follower with the same protocols is answered; trap 32")
async def a_follower_that_joins_again_changes_nothing(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.join()
    await b.join(5)
    await a.heartbeat()
    await s.describe()


@scenario("JoinGroup 5e, Stable: a follower with other metadata starts a round")
async def a_follower_that_changed_starts_a_round(s: Script) -> None:
    a, b = await s.stable("A", "B", protocols=BOTH)
    await b.join(protocols=(("range", b"new"), ("sticky", b"s")))
    await a.heartbeat()
    await a.join()
    await s.describe()


@scenario(
    "JoinGroup 5e, Stable: the same protocols in another order are others; a tie in the vote",
    excuse="a tie goes to the leader's preference; in Kafka to what comes first in a hash map",
    hides=("protocol_name", "metadata"),
)
async def a_follower_that_changed_its_mind_starts_a_round(s: Script) -> None:
    a, b = await s.stable("A", "B", protocols=BOTH)
    await b.join(protocols=BOTH[::-1])
    await a.join()


@scenario("JoinGroup 5e, Empty: nobody is known any more")
async def an_emptied_group_does_not_know_its_members(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.leave()
    await a.join()
    await s.describe()
    await a.join(member_id="")


@scenario("JoinGroup 5c: an id that was given to a dynamic member, used by a static one")
async def a_pending_id_with_an_instance_is_a_server_error(s: Script) -> None:
    a = s.member("A")
    await a.join()
    await a.join(group_instance_id="i1")
    await a.join()


@scenario("pending ids do not stop the first round; trap 4")
async def a_pending_id_does_not_delay_the_first_round(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.join()
    await b.join()
    await a.join()
    await s.describe()


@scenario("pending ids hold back every later round until they join; trap 4")
async def a_pending_id_delays_a_round_until_it_joins(s: Script) -> None:
    (a,) = await s.stable("A")
    b = s.member("B")
    await b.join()
    await a.heartbeat()
    await a.join()
    await b.join()


@scenario("pending ids hold back every later round until they leave")
async def a_pending_id_delays_a_round_until_it_leaves(s: Script) -> None:
    (a,) = await s.stable("A")
    b = s.member("B")
    await b.join()
    await a.join()
    await b.leave()


@scenario("pending ids hold back every later round until their session ends")
async def a_pending_id_delays_a_round_until_it_expires(s: Script) -> None:
    (a,) = await s.stable("A")
    b = s.member("B", session_ms=2000)
    await b.join()
    await a.join()
    await s.until_freed()
    await b.join()


@scenario("a pending id that expires leaves a stable group alone")
async def a_pending_id_expires_unnoticed(s: Script) -> None:
    (a,) = await s.stable("A")
    b = s.member("B", session_ms=500)
    await b.join()
    await s.pass_ms(1000)
    await a.heartbeat()
    await b.join()
    await s.describe()


@scenario("a null client id is printed into the member id")
async def a_client_without_a_name_joins(s: Script) -> None:
    await s.member("nameless", client_id=None).enter()
    await s.describe()
