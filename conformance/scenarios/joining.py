"""JoinGroup, the completion of a rebalance, and the initial delay."""

from ..scenario import scenario
from ..script import Script

BOTH = (("range", b"r"), ("sticky", b"s"))


@scenario("JoinGroup: MEMBER_ID_REQUIRED; the group exists from then on")
async def a_dynamic_member_joins_in_two_steps(s: Script) -> None:
    a = s.member("A")
    await s.describe()
    await a.join()
    await s.describe()
    await s.list()
    await a.join()
    await s.describe()


@scenario("JoinGroup in every version: which fields are null, and which are empty")
async def join_group_in_every_version(s: Script) -> None:
    for version in range(10):
        await s.member(f"V{version}").enter(version, group_id=f"{s.group}/v{version}")


@scenario("JoinGroup error responses contain null, an empty string or -1, as the version requires")
async def join_group_is_rejected_in_every_version(s: Script) -> None:
    for version in range(10):
        await s.member("A").join(version, member_id="stranger")


@scenario("JoinGroup: no group is created for a member that has an id")
async def a_join_with_an_id_creates_no_group(s: Script) -> None:
    await s.member("A").join(member_id="stranger")
    await s.describe()
    await s.list()


@scenario("JoinGroup: an unknown member id")
async def an_unknown_member_id_is_rejected(s: Script) -> None:
    await s.stable("A")
    await s.member("B").join(member_id="stranger")
    await s.describe()


@scenario("supportsProtocols: the first join needs a type and a protocol, but creates the group")
async def a_first_join_without_protocols_is_rejected(s: Script) -> None:
    a = s.member("A")
    await a.join(protocols=())
    await s.describe()
    await a.join(protocol_type="", group_id=f"{s.group}/typeless")
    await s.list()


@scenario("supportsProtocols: the type of the group, and a protocol that all members list")
async def members_must_have_a_protocol_in_common(s: Script) -> None:
    (a,) = await s.stable("A", protocols=BOTH)
    await s.member("B").join(protocol_type="connect")
    await s.member("B").join(protocols=(("cooperative", b"c"),))
    await s.member("B").join(3, protocols=(("cooperative", b"c"),))
    await a.join(protocol_type="connect")
    await a.join(protocols=(("cooperative", b"c"),))
    await a.heartbeat()
    await s.describe()


@scenario("selectProtocol: the most preferred protocol that all support, with its metadata")
async def members_vote_for_the_protocol(s: Script) -> None:
    c = s.member("C", protocols=(("sticky", b"s3"), ("range", b"r3")))
    a = await s.member("A", protocols=(*BOTH, ("zigzag", b"z"))).entered()
    b = s.member("B", protocols=(("zigzag", b"z2"), ("sticky", b"s2"), ("range", b"r2")))
    await b.enter()
    await a.join()
    await c.enter()
    await a.join()
    await b.join()
    await a.sync({a: "1"}, protocol_name="sticky")
    await s.describe()


@scenario("JoinGroup: a member's second join replaces its first, which never gets a response")
async def a_repeated_join_has_one_response(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await a.join(protocols=(("range", b"new"),))
    await b.join()
    await s.describe()


@scenario("JoinGroup, CompletingRebalance, same protocols: an immediate response")
async def an_unchanged_join_in_completing_rebalance(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await a.join()
    await b.join()
    await s.describe()
    await b.sync()
    await b.join()
    await a.sync({a: "1", b: "2"})


@scenario("JoinGroup, CompletingRebalance, changed: a new rebalance; waiting syncs fail")
async def a_changed_join_in_completing_rebalance(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync()
    await a.join(protocols=(("range", b"new"),))
    await s.describe()
    await b.heartbeat()
    await b.join()


@scenario("JoinGroup, Stable: a leader can always force a rebalance")
async def a_leader_that_rejoins_starts_a_rebalance(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await s.describe()
    await b.heartbeat()
    await b.join()
    await s.describe()


@scenario("JoinGroup, Stable: a follower with the same protocols gets the current generation")
async def a_follower_that_rejoins_changes_nothing(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.join()
    await b.join(5)
    await a.heartbeat()
    await s.describe()


@scenario("JoinGroup, Stable: a follower with other metadata starts a rebalance")
async def a_follower_with_other_metadata_starts_a_rebalance(s: Script) -> None:
    a, b = await s.stable("A", "B", protocols=BOTH)
    await b.join(protocols=(("range", b"new"), ("sticky", b"s")))
    await a.heartbeat()
    await a.join()
    await s.describe()


@scenario(
    "JoinGroup, Stable: the same protocols in another order differ; a tie in the vote",
    excuse="kohort breaks ties by the leader's preference, Kafka by hash order",
    hides=("protocol_name", "metadata"),
)
async def a_follower_with_another_preference_starts_a_rebalance(s: Script) -> None:
    a, b = await s.stable("A", "B", protocols=BOTH)
    await b.join(protocols=BOTH[::-1])
    await a.join()


@scenario("JoinGroup, Empty: all member ids are unknown")
async def an_emptied_group_rejects_its_former_members(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.leave()
    await a.join()
    await s.describe()
    await a.join(member_id="")


@scenario("JoinGroup: the pending id of a dynamic member, with an instance id")
async def a_pending_id_with_an_instance_is_a_server_error(s: Script) -> None:
    a = await s.member("A").joined()
    await a.join(group_instance_id="i1")
    await a.join()


@scenario("pending ids do not delay the first rebalance")
async def a_pending_id_does_not_delay_the_first_rebalance(s: Script) -> None:
    a = await s.member("A").joined()
    await s.member("B").join()
    await a.join()
    await s.describe()


@scenario("pending ids delay every later rebalance until they join")
async def a_pending_id_delays_a_rebalance_until_it_joins(s: Script) -> None:
    (a,) = await s.stable("A")
    b = await s.member("B").joined()
    await a.heartbeat()
    await a.join()
    await b.join()


@scenario("pending ids delay every later rebalance until they leave")
async def a_pending_id_delays_a_rebalance_until_it_leaves(s: Script) -> None:
    (a,) = await s.stable("A")
    b = await s.member("B").joined()
    await a.join()
    await b.leave()


@scenario("pending ids delay every later rebalance until their session timeout")
async def a_pending_id_delays_a_rebalance_until_it_expires(s: Script) -> None:
    (a,) = await s.stable("A")
    b = await s.member("B", session_ms=2000).joined()
    await a.join()
    await s.until_response()
    await b.join()


@scenario("a pending id that expires does not affect a stable group")
async def a_pending_id_expires_in_a_stable_group(s: Script) -> None:
    (a,) = await s.stable("A")
    b = await s.member("B", session_ms=500).joined()
    await s.pass_ms(1000)
    await a.heartbeat()
    await b.join()
    await s.describe()


@scenario("a null client id is `null` in the member id")
async def a_client_without_a_client_id_joins(s: Script) -> None:
    await s.member("nameless", client_id=None).enter()
    await s.describe()


@scenario("initial delay: the timer ends it, not the last member to join", settings="delayed")
async def the_first_rebalance_waits_for_more_members(s: Script) -> None:
    await s.member("A").enter()
    await s.describe()
    await s.pass_ms(1500)
    await s.until_response()
    await s.describe()


@scenario("initial delay: another member extends it once", settings="delayed")
async def a_new_member_extends_the_initial_delay(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await s.pass_ms(1000)
    await b.enter()
    await s.pass_ms(2500)
    await s.until_response()


@scenario("initial delay: at most the rebalance timeout", settings="delayed")
async def the_initial_delay_ends_with_the_rebalance_timeout(s: Script) -> None:
    await s.member("A", rebalance_ms=4500).enter()
    await s.member("B", rebalance_ms=60_000).enter()
    await s.until_response()


@scenario("initial delay: a member that leaves during it leaves an empty group", settings="delayed")
async def the_only_member_leaves_during_the_initial_delay(s: Script) -> None:
    a = await s.member("A").entered()
    await a.leave()
    await s.describe()
    await s.until_state("Empty")
    await s.describe()
    await a.join()
    await s.member("B").enter()
    await s.until_response()


@scenario("initial delay: a commit and a sync during it", settings="delayed")
async def requests_during_the_initial_delay(s: Script) -> None:
    a = await s.member("A").entered()
    await a.heartbeat(generation_id=0)
    await a.commit(1, generation_id_or_member_epoch=0)
    await a.sync({a: "1"}, generation_id=0)
    await a.commit(2, member_id="", generation_id_or_member_epoch=-1)
    await s.fetch()
    await s.until_response()


@scenario("initial delay: an emptied group waits again", settings="delayed")
async def an_emptied_group_has_an_initial_delay_again(s: Script) -> None:
    a = await s.member("A").entered()
    await s.until_response()
    await a.sync({a: "1"})
    await a.leave()
    await s.member("B").enter()
    await s.describe()
    await s.until_response()
