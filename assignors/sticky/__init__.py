"""Balanced assignments that move as few partitions as possible (AbstractStickyAssignor).

assignors    `sticky` and `cooperative-sticky`, and the code that they share
ownership    the owners of partitions: user data, conflicting claims
constrained  the assignment if all members have the same subscription
general      the assignment if subscriptions differ
"""
