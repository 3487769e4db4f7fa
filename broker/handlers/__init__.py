"""One file per API key. `handle(context, node)` turns a request of any version into a command, a
read or a change, and responds. Code behind the handlers is independent of request versions.

kNN_*.py           one API each; the docstring states its key and the changes of each version
authorization.py   what the client of a request may do
transactions.py    coordinators of transactional ids, verification of partitions
common.py          leaders and brokers, failed responses, failed authentication
"""
