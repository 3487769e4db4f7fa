"""Assignors of the group coordinator, for groups of the consumer protocol (KIP-848).

    model           members, topics and target assignments
    homogeneous     `uniform`, the default, if all members have the same subscription
    heterogeneous   `uniform` if subscriptions differ
    range           `range`: ranges of each topic
    hashing         the iteration order of Java's hash tables, which breaks ties in Kafka
    targets         a target assignment in progress, with the order of Kafka's records
    builtin         both assignors by name
    adapter         both assignors with the interface of client-side assignors (`kohort assign`)

`uniform` balances the partitions, and members keep theirs if possible. Results match Kafka 4.3's,
down to the order of members, topics and partitions (hashing.py names the exception).
"""
