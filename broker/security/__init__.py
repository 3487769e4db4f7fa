"""Authentication, authorization and client limits: TLS, SASL, ACLs, quotas, connections.

tls.py          TLS of a listener; certificates.py: the broker's own certificate authority
session.py      what the broker knows about a connection's client;  principal.py: its identity
distinguished_name.py  the name in a certificate
security.py     the settings that the nodes share, and user credentials
sasl.py         the authentication of one connection
mechanism.py    the interface of mechanisms, and PLAIN;  scram.py, oauthbearer.py: the others
authorizer.py   decides by ACLs what a client may do
quotas.py       client quotas and throttle times;  rates.py: rates
metering.py     measures requests, and throttles their clients
connection_limits.py  limits the number and the rate of a node's connections
"""
