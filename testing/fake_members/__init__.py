"""Scripted group members, so that a test needs only one real consumer.

    peer = kafka.fake_member("billing", topics=["orders"], assignor="cooperative-sticky")
    peer.wait_owned(2)
    peer.suspend()                       # it sends no heartbeats, but keeps its partitions
    kafka.clock.advance(minutes=1)
    assert peer.commit("orders", 0, 7) == "UNKNOWN_MEMBER_ID"

    fake_member      FakeMember, and all fake members of a broker: creation, waiting for their joins
    member           a member of the classic protocol: JoinGroup, SyncGroup, Heartbeat, errors
    consumer_member  a member of the consumer protocol: ConsumerGroupHeartbeat, errors
    roles            consumer or Connect worker: subscriptions and assignments
    client           requests to the coordinator, over connections without sockets

A fake member runs on the broker's loop and uses the wire protocol, so history, faults and holds
treat it like any client. Because its connections have no sockets, the harness knows when nothing is
in progress, and `clock.advance` can go from one heartbeat to the next.
"""
