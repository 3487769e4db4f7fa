"""From a socket to a handler and back. Start with connection.py.

server.py           the listening sockets
connection.py       one client: frames in, responses in order
outbox.py           sends the responses of all connections, and lets busy connections take turns
idle_connections.py closes idle connections
request.py          routes (decoder, handler and encoder of an API version) and request contexts
request_cache.py    recognizes repeated requests by their bytes
wrapped_channel.py  base class of channels that wrap a connection: request log, quotas, tests
request_log.py      log lines per request and response, for --log-level debug
"""
