"""Incremental cooperative rebalancing of Kafka Connect (KIP-415): connectors and tasks to workers.

    assignor    one rebalance: revocations, delay and assignments, and the leader's state
    protocol    the metadata and assignments of workers, in Kafka's bytes

Two differences from consumer assignors: the work of a departed worker is held back for a while in
case it returns, and the leader keeps state between rebalances.
"""
