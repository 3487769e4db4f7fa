"""Who a client is, and what it may do: TLS, SASL, ACLs, quotas and limits of connections."""
