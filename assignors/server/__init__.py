"""Assignors of the group coordinator, for groups of the consumer protocol (KIP-848).

    model           members, topics and target assignments
    uniform         `uniform`, the default: balanced; members keep their partitions
    homogeneous     `uniform` if all members have the same subscription
    heterogeneous   `uniform` if subscriptions differ
    range           `range`: ranges of each topic
    hashing         the iteration order of Java's hash tables, which decides ties in Kafka
    targets         a target assignment in progress, with the order of Kafka's records
    adapter         both assignors with the interface of client-side ones, for `kohort assign`

Results are equal to Kafka 4.3's, including the order of members, topics and partitions.
"""
