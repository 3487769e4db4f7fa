"""The broker: the server, the request handlers, and the runtime that connects the coordinators with
their logs. Start with network/connection.py, then runtime/.

network/            connections, requests and responses
handlers/           one file per API key: from a request to a command, from a result to a response
runtime/            runs the group and transaction coordinators: decide, append, apply, flush, reply
event_loop/         cooperative tasks, timers, threads
security/           authentication, authorization and client limits
config/             broker configuration: keys, parsing, listeners
broker.py           start and stop;  build.py: the parts of a node
cluster.py          the nodes of one process
maintenance.py      compaction and retention
topic_metadata.py   topics for consumer groups: ids, hashes, regular expressions
gather.py           combines several results into one response
event_log.py        coordinator events, as log lines and as JSON lines in files
fetch_sessions.py   fetch sessions (KIP-227);  client_telemetry.py: client instances (KIP-714)
"""
