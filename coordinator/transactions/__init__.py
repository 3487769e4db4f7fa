"""Transactions: the state of each transactional id, its producer and its partitions.

states       the states of a transaction, and changes to its metadata: start reading here
commands     commands and their results
coordinator  TransactionCoordinator: the decisions
"""
