"""Authentication, authorization and limits of clients: TLS, SASL, ACLs, quotas, connections.

tls.py          TLS of a listener; certificates.py: the broker's own certification authority
session.py      what the broker knows about the client of a connection;  principal.py: its name
distinguished_name.py  the name in a certificate
security.py     what the nodes share, built from the configuration
sasl.py         the authentication of one connection
mechanism.py    what mechanisms have in common;  plain.py, scram.py, oauthbearer.py: each of them
credentials.py  users and their passwords
authorizer.py   decides what a client may do, by ACLs
quotas.py       which quota applies to a client, and how long it is throttled;  rates.py: rates
metering.py     measures requests, and throttles their clients
connection_limits.py  limits how many connections a node has, and how many it accepts per second
"""
