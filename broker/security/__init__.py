"""Who a client is, and what it may do: TLS, SASL, ACLs, quotas and limits of connections.

session.py     what the broker knows about a client;  principal.py: its identity
authorizer.py  which client may do what, by ACLs
security.py    what all nodes share
"""
