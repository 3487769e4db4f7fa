"""Incremental cooperative rebalancing of Kafka Connect (KIP-415): assigns connectors and tasks to
workers.

    assignor    one rebalance: revocations, delay and assignments, and the leader's state
    protocol    the encoding of workers' metadata and assignments

Connect differs from consumers in two ways: the work of a departed worker is held back for some time
in case the worker returns, and the leader keeps state between rebalances.
"""
