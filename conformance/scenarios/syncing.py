"""SyncGroup, and members that never send it."""

from ..scenario import scenario
from ..script import Script


@scenario("SyncGroup: an unknown group, and an empty one")
async def a_sync_to_an_unknown_or_empty_group(s: Script) -> None:
    a = s.member("A")
    for version in range(6):
        await a.sync(version=version, member_id="stranger", generation_id=1)
    await a.join()
    await a.sync(generation_id=0)


@scenario("SyncGroup: unknown and pending ids, fenced instances")
async def a_sync_of_an_unknown_member(s: Script) -> None:
    a, b = await s.stable("A", "B", instances={"B": "i1"})
    c = await s.member("C").joined()
    await c.sync(generation_id=2)
    await c.sync(generation_id=2, member_id="stranger")
    await a.sync(group_instance_id="i9")
    await a.sync(group_instance_id="i1")
    await b.sync(member_id="stranger")
    await b.sync(group_instance_id=None)


@scenario("SyncGroup: another generation")
async def a_sync_of_another_generation(s: Script) -> None:
    a, b = await s.stable("A", "B")
    for generation in (-1, 0, 1, 3):
        await b.sync(generation_id=generation)
    await a.sync(generation_id=1)


@scenario("SyncGroup: another protocol type or name")
async def a_sync_of_another_protocol(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.sync(protocol_type="connect")
    await b.sync(protocol_name="sticky")
    await a.sync(protocol_name="sticky")
    await b.sync(version=4, protocol_name="sticky")


@scenario("SyncGroup v5 needs the protocol type and name; both are validated first")
async def a_sync_without_a_protocol(s: Script) -> None:
    await s.stable("A")
    a = s.member("B")
    await a.sync(protocol_type=None)
    await a.sync(protocol_name=None)
    await a.sync(protocol_type=None, protocol_name=None)
    await a.sync(version=4)
    await a.sync(group_id="", protocol_name=None)


@scenario("SyncGroup: in PreparingRebalance")
async def a_sync_while_others_join(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await b.sync()
    await a.sync({a: "1"})
    await b.join()


@scenario("SyncGroup: a stable group returns the assignment again")
async def a_sync_in_a_stable_group(s: Script) -> None:
    a, b = await s.stable("A", "B")
    for version in range(6):
        await b.sync(version=version)
    await a.sync({a: "other", b: "other"})
    await b.sync()


@scenario("SyncGroup: a follower's sync waits for the leader's")
async def a_follower_syncs_before_the_leader(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync()
    await s.describe()
    await b.heartbeat()
    await a.heartbeat()
    await a.sync({a: "1", b: "2"})
    await s.describe()


@scenario("SyncGroup: a member that the leader omits gets nothing; unknown members are ignored")
async def assignments_of_unknown_and_missing_members(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync()
    await a.sync({a: "1", "stranger": "2"})
    await s.describe()


@scenario("SyncGroup: a follower's assignments are ignored")
async def a_follower_sends_assignments(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync({a: "mine", b: "mine"})
    await a.sync({a: "1", b: "2"})


@scenario("SyncGroup: a member's second sync replaces its first, which never gets a response")
async def a_repeated_sync_has_one_response(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync()
    await b.sync()
    await a.sync({a: "1", b: "2"})
    await b.heartbeat()


@scenario("prepareRebalance: waiting syncs fail when another rebalance begins")
async def a_new_member_fails_waiting_syncs(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync()
    await s.member("C").enter()
    await s.describe()
    await a.sync({a: "1", b: "2"})
    await a.join()
    await b.join()


@scenario("sync timeout, CompletingRebalance: members that have not synced are removed")
async def a_leader_that_never_syncs_is_removed(s: Script) -> None:
    a, b = await s.joined("A", "B", rebalance_ms=3000)
    await b.sync()
    await s.until_response()
    await b.heartbeat()
    await a.heartbeat()
    await b.join()
    await s.describe()


@scenario("sync timeout, Stable: members that have not synced are removed too")
async def a_follower_that_never_syncs_is_removed(s: Script) -> None:
    a, b = await s.joined("A", "B", rebalance_ms=3000)
    await a.sync({a: "1", b: "2"})
    await b.heartbeat()
    await s.until_state("PreparingRebalance")
    await b.heartbeat()
    await a.heartbeat()
    await a.join()
