"""Scripted members of groups, so that one real consumer is enough for a test.

    peer = kafka.puppet("billing", topics=["orders"], assignor="cooperative-sticky")
    peer.wait_owned(2)
    peer.silence()                       # a zombie: no heartbeats, and it believes what it believed
    kafka.clock.advance(minutes=1)
    assert peer.commit("orders", 0, 7) == "UNKNOWN_MEMBER_ID"

    puppeteer  what a test says of a new one
    arriving   that it has joined when the test gets it, or why it may not
    puppet     what a test holds: the script
    member     how a member of the classic protocol lives: joins, heartbeats, what an error means
    role       what it is a member for
    consumer   … a consumer: subscriptions and assignments
    worker     … a Connect worker
    asking     how it asks its coordinator, and finds it again
    link       a client's connection to a node, without a socket
    all        the puppets of one broker, what they hear, and when the next of them has a deadline

A puppet lives on the broker's loop and needs no wall time. It speaks Kafka's protocol in whole
frames over connections of the broker's own kind, only that no socket lies between: so history,
faults, holds and doctors see it as they see clients, and a broker that has nothing to do knows
that its puppets have nothing to do either, which it could not know of a socket. Then `advance` can
go from one heartbeat to the next.
"""
