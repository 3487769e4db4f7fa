"""Faults that a test sets, and which must fire.

faults   faults on requests: which requests they match, how often, in which order
actions  what they do: delay, drop, error responses for any API
network  conditions of the network: latency, bandwidth, partitions, clock skew
disk     faults of disks
files    the in-memory file system that implements them
"""
