"""Who gets which partition: pure functions from what a group's members want and own.

    model        the words: a member's subscription, the topics there are, an assignment
    builtin      Kafka's own strategies, by name
    finding      those and any other by name: installed ones, and by their path
    range        each topic by itself, in ranges, near its replicas
    roundrobin   all partitions of all topics, dealt out in turn
    sticky/      as it was, as far as a balanced group allows; `sticky` and `cooperative-sticky`
    uniform      the broker's own, for groups of the new protocol: even, and little moves
    server_range the broker's ranges for such groups
    connect      Kafka Connect's connectors and tasks, held back for workers that may return

    examples     strategies that Kafka does not have

    levels       who has least and who has most, while that changes
    subscribers  who wants which topic, in the members' order
    racks        which racks members and replicas are in, and whether they matter
    explain      why a partition moved from one round to the next

    kafka_python any of them as a strategy of kafka-python's consumers
    aiokafka     the same for aiokafka's
    plugged      what those two share

Nothing here reads a clock, a file or a socket, and nothing depends on hash order.
Only `kafka_python` and `aiokafka` import a client library, each its own.
"""
