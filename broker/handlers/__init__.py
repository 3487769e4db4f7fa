"""One file per API key. `handle(context, node)` handles a request of any version: it submits a
command to a coordinator, or reads or changes topics, and then responds. Coordinators and topics do
not depend on API versions.

kNN_*.py           one API each; the docstring states its key and the changes of each version
authorization.py   what a client may do
transactions.py    commands for transactional ids, verification of partitions
common.py          leaders and brokers, failed responses, failed authentication
"""
