"""Balanced assignments that move as few partitions as possible (AbstractStickyAssignor).

assignors    `sticky` and `cooperative-sticky`, and what both do in a rebalance
ownership    which member owns what: user data, conflicting claims
constrained  the assignment if all members have the same subscription
general      the assignment if subscriptions differ
"""
