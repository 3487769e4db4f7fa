"""What exists: the registry of topics, their partitions on the log, idempotent producers' state.

registry.py       which topics there are; its log is the truth;  records.py: what it stores
nodes.py          who is up, and who is to lead what
topic.py          one topic;  partition.py: its log, its producers, who waits for it
produce.py        a batch on its way in;  producers.py: is it the next one, or here already?
fetch.py          batches on their way out;  delayed_fetch.py: long polls
transaction_index.py what those who read committed records only are to pass over
journal.py        what the registry is written in, compacted
removal.py        the end of a deleted topic: its folders
kafka_import.py   a data folder of Kafka's becomes ours
kafka_metadata.py: what its controller knew
offsets_topic.py  how the offsets topic is made;  view.py: what clients may read
registry_check.py may the registry be opened?
admin.py          making, growing and deleting topics;  alter.py: changing configurations
names.py          which names are allowed;  errors.py: how topics say no

config_def.py     what a key is: type, bounds, Kafka's sentences. The broker's keys are such too
config_keys.py    every topic key, and the broker's keys that give it a default: data, no behaviour
configs.py        what a topic's configuration comes to: overrides, broker's values, defaults
"""
