"""Sockets -> coordinator -> log -> replies. Start reading at coordinator/, then runtime.py.

config/            broker configuration: keys, parsing, listeners
handlers/          one file per API key: a request's fields in, a command or an answer out
runtime.py        the life of a command: decision, records, durable, reply;  led.py: the offsets
                   partitions that a node leads, shard.py: what it keeps of each, snapshots.py: when
                   it is written down beside the log;  loading.py: its log is read
cache.py          how many offsets may be in memory
fetch_sessions.py what clients fetch, and were told of it last
offset_cleanup.py offsets go with their topic, whatever fails meanwhile
broker.py         opens, listens, stops;  build.py: puts all of this together;
                   node.py: what a handler sees of it
cluster.py        several nodes in one process: who is up, who leads what
server.py         the listening socket;  connection.py: one client, responses in order
request.py        routes (what decodes, handles and encodes an API version), request contexts
request_cache.py  repeated requests, recognised by their bytes
gather.py         several answers that become one
request_log.py    a line per request, for --log-level debug;  event_log.py: the event log
timers.py         deadlines on the event loop;  clock.py;  sync_pool.py: many syncs at once
maintenance.py    compaction and retention, in the background
meta_properties.py whose data a folder has

Keys of topics: topics/config_keys.py; what a log is told: log/log.py; what groups are told:
groups/config.py.
"""
