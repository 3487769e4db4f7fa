"""Faults that a test sets. A fault that never fires fails the test.

faults   request faults: which requests they match, how often, in which order
actions  what faults do to a request: delay, drop, error responses for any API
network  network conditions: latency, bandwidth, partitions, clock skew
disk     disk faults
files    the in-memory file system that implements disk faults
"""
