"""Topics: the registry, partitions on the log, produce and fetch, configuration.

registry.py        the topic registry, and the view that clients have
registry_log.py    the registry's records and its log
topic.py           a topic, its partitions, the nodes that lead them
names.py           valid and reserved topic names
produce.py         validating and appending a producer's batch
fetch.py           reading batches for consumers
delayed_fetch.py   fetches that wait for more bytes
topic_deletion.py  removing the folders of deleted topics
admin.py           validation of CreateTopics, CreatePartitions, DeleteTopics
alter_configs.py   AlterConfigs and IncrementalAlterConfigs
config_changes.py  changes of single keys, for every kind of resource
broker_configs.py  which broker keys can be changed, and to which values
security_state.py  SCRAM credentials, ACLs and client quotas
acls.py            ACLs, and finding those that apply to a resource
kafka_import.py    importing a data folder that was written by Kafka
kafka_metadata.py  the metadata in such a folder: topics, users, ACLs, quotas
scram.py           SCRAM credentials

config_def.py      typed keys: parsing and validation, for the broker's keys too
config_keys.py     every topic key with type, default and limits, and its broker synonyms: data
broker_loggers.py  the levels of the broker's loggers
client_metrics.py  the keys of subscriptions to metrics of clients
group_configs.py   every group key, and the validation of a group's overrides
configs.py         the effective configuration: overrides, broker's values, defaults
"""
