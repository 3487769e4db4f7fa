"""Assignors: pure functions from the subscriptions of a group's members to an assignment.

    model         subscriptions, topics, assignments, and the interface of an assignor
    resolve       assignors by name (built in or installed) or by path
    range         `range`: ranges of each topic
    roundrobin    `roundrobin`: the partitions of all topics in turn
    sticky/       `sticky` and `cooperative-sticky`: balanced, with as few moves as possible
    server/       the broker's `uniform` and `range`, for groups of the consumer protocol (KIP-848)
    connect/      Kafka Connect: assigns connectors and tasks to workers
    examples      two assignors that Kafka lacks
    explain       why each partition moved between two assignments

    ordering      the order of members and topics in Kafka, and of Java's strings and HashMaps
    racks         the racks of members and replicas (KIP-881)

    kafka_python  assignors as strategies of kafka-python
    aiokafka      assignors as strategies of aiokafka
    client_adapter  what the two strategies share

Assignors use no clock and no I/O, and their results do not depend on Python's hashes. Only
`kafka_python` and `aiokafka` import a client library.
"""
