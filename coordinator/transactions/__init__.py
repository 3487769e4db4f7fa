"""Transactions: the state of each transactional id, its producer and its partitions.

states       the states of a transaction, and the changes of its metadata: start reading here
commands     commands and their results
coordinator  TransactionCoordinator: the decisions
"""
