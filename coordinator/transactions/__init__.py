"""Transactions: the state of each transactional id, its producers and its partitions.

`states` is where reading starts: the states of a transaction, and which requests each accepts.
`commands` has the requests and results, `coordinator` the decisions.
"""
