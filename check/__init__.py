"""`kohort check`: does a broker keep its promises under load? For any Kafka.

history.py     operations and their outcomes: what the other parts exchange. Start here
  recorder.py    records them
workload.py    the clients of a run;  run.py: the run, from the topic to the final reads
  producer.py    a producer;  reader.py: fetches;  members.py: members of groups
  cluster.py     leaders and coordinators;  connection.py: one connection
nemesis.py     disturbs the broker;  targets.py: brokers that can be disturbed
analysis       from a history to anomalies: pure
report.py      the result as text and JSON;  timeline.py: as SVG
"""
