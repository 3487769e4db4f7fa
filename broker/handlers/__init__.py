"""One file per API key. `handle(context, node)` turns a request of any version into a command, a
read or a change, and responds. Nothing behind the handlers knows versions.

common.py          what several handlers share: leaders, merged and failed responses
kNN_*.py           docstring: the API, its key, and what each version added
"""
