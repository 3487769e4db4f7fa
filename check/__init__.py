"""`kohort check`: checks that a broker (kohort, Apache Kafka) keeps Kafka's guarantees under load.

history.py     operations and their outcomes, the data of the other modules. Start here
  recorder.py    records operations
workload.py    the clients of a run;  run.py: a run, from creating the topic to the final reads
  producer.py    a producer;  reader.py: fetches;  members.py: members of groups
  cluster.py     leaders and coordinators;  connection.py: one connection
nemesis.py     disturbs the broker;  targets.py: brokers that can be disturbed
analysis       pure functions that find the anomalies in a history
report.py      the result as text and JSON;  timeline.py: as SVG
"""
