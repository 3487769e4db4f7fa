"""SyncGroup: the rows of its table."""

from ..registry import scenario
from ..script import Script


@scenario("SyncGroup 1: no group, and an empty one")
async def a_sync_without_a_group_or_in_an_empty_one(s: Script) -> None:
    a = s.member("A")
    for version in range(6):
        await a.sync(version=version, member_id="stranger", generation_id=1)
    await a.join()
    await a.sync(generation_id=0)


@scenario("SyncGroup 4: strangers, pending ids, fenced instances")
async def a_sync_of_a_stranger(s: Script) -> None:
    a, b = await s.stable("A", "B", instances={"B": "i1"})
    c = s.member("C")
    await c.join()
    await c.sync(generation_id=2)
    await c.sync(generation_id=2, member_id="stranger")
    await a.sync(group_instance_id="i9")
    await a.sync(group_instance_id="i1")
    await b.sync(member_id="stranger")
    await b.sync(group_instance_id=None)


@scenario("SyncGroup 5: another generation")
async def a_sync_of_another_generation(s: Script) -> None:
    a, b = await s.stable("A", "B")
    for generation in (-1, 0, 1, 3):
        await b.sync(generation_id=generation)
    await a.sync(generation_id=1)


@scenario("SyncGroup 6: another protocol type or name")
async def a_sync_of_another_protocol(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.sync(protocol_type="connect")
    await b.sync(protocol_name="sticky")
    await a.sync(protocol_name="sticky")
    await b.sync(version=4, protocol_name="sticky")


@scenario(
    "SyncGroup from version 5 on names both the type and the protocol, or neither is looked at"
)
async def a_sync_that_names_no_protocol(s: Script) -> None:
    await s.stable("A")
    a = s.member("B")
    await a.sync(protocol_type=None)
    await a.sync(protocol_name=None)
    await a.sync(protocol_type=None, protocol_name=None)
    await a.sync(version=4)
    await a.sync(group_id="", protocol_name=None)


@scenario("SyncGroup 7: while a round is open")
async def a_sync_while_others_join(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await b.sync()
    await a.sync({a: "1"})
    await b.join()


@scenario("SyncGroup 8: a stable group gives the share that it has, again and again")
async def a_sync_in_a_stable_group(s: Script) -> None:
    a, b = await s.stable("A", "B")
    for version in range(6):
        await b.sync(version=version)
    await a.sync({a: "other", b: "other"})
    await b.sync()


@scenario("SyncGroup 9: a follower that comes before the leader is held back until then")
async def a_follower_syncs_before_the_leader(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await s.describe()
    await b.heartbeat()
    await a.heartbeat()
    await a.sync({a: "1", b: "2"})
    await s.describe()


@scenario("SyncGroup: who is not mentioned gets nothing, strangers are left out")
async def shares_of_strangers_and_of_nobody(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await a.sync({a: "1", "stranger": "2"})
    await s.describe()


@scenario("SyncGroup: what a follower hands out is not looked at")
async def a_follower_hands_out_shares(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync({a: "mine", b: "mine"})
    await a.sync({a: "1", b: "2"})


@scenario("SyncGroup: a second sync of an id takes the place of the first, never answered")
async def a_sync_that_is_repeated_is_answered_once(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await b.sync()
    await a.sync({a: "1", b: "2"})
    await b.heartbeat()


@scenario("prepareRebalance 1: parked syncs are told that a new round begins")
async def a_newcomer_ends_the_wait_for_shares(s: Script) -> None:
    a, b, c = s.member("A"), s.member("B"), s.member("C")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await c.enter()
    await s.describe()
    await a.sync({a: "1", b: "2"})
    await a.join()
    await b.join()


@scenario("sync timer, CompletingRebalance: who owes its sync is put out; trap 11")
async def a_leader_that_never_syncs_is_put_out(s: Script) -> None:
    a, b = s.member("A", rebalance_ms=3000), s.member("B", rebalance_ms=3000)
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await s.until_freed()
    await b.heartbeat()
    await a.heartbeat()
    await b.join()
    await s.describe()


@scenario(
    "sync timer, Stable: who owes its sync is put out though the group has its shares; trap 11"
)
async def a_follower_that_never_syncs_is_put_out(s: Script) -> None:
    a, b = s.member("A", rebalance_ms=3000), s.member("B", rebalance_ms=3000)
    await a.enter()
    await b.enter()
    await a.join()
    await a.sync({a: "1", b: "2"})
    await b.heartbeat()
    await s.until_state("PreparingRebalance")
    await b.heartbeat()
    await a.heartbeat()
    await a.join()
