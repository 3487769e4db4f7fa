"""Sockets -> coordinator -> log -> responses. Start with runtime.py.

config/             broker configuration: keys, parsing, listeners
handlers/           one file per API key: from a request to a command, from a result to a response
security/           who a client is, what it may do, and how much
connection.py       one client: frames in, responses in order;  outbox.py: when those are sent
server.py           the listening socket
idle_connections.py closes idle connections
request.py          routes (decoder, handler and encoder of an API version) and request contexts
wrapped_channel.py  base class of what wraps a connection: the log, quotas, tests
request_cache.py    repeated requests, recognised by their bytes
request_log.py      log lines per request and response, for --log-level debug
runtime.py          commands to the coordinators of a node: decide, append, apply, flush, reply
transactions.py     the same for transactional ids;  transaction_markers.py: ends of transactions
context.py          state of the runtime per offsets partition;  loader.py: loading one
snapshots.py        when snapshots are written;  offset_cleanup.py: offsets of deleted topics
gather.py           responses combined from several results
scheduler.py        cooperative tasks;  timers.py: the clock and deadlines;  sync_pool.py: threads
topic_metadata.py   topics as consumer groups see them: ids, hashes, regular expressions
watchdog.py         durations of event loop callbacks, and log lines for long ones
maintenance.py      compaction and retention
event_log.py        events of the coordinators, as log lines and as JSON lines in files
fetch_sessions.py   fetch sessions (KIP-227)
cluster.py          the nodes of one process;  broker.py: start and stop;  build.py: the parts
meta_properties.py  the cluster id of a data folder
"""
