"""Who a client is, and what it may do: TLS, SASL, ACLs, quotas and limits of connections.

principal          the identity of a client;  session: what the broker knows about it
security           what all nodes share
quotas             client quotas: which one applies, and how long a client is throttled
rates              rates over a sliding window, token buckets
metering           measures requests, and throttles their clients
connection_limits  how many connections a node has, and how many it accepts per second
"""
