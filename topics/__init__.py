"""Topics: the registry, partitions on the log, produce and fetch, configuration.

registry.py        the topic registry, and its read-only view for request handlers
registry_log.py    the registry's records and its log
topic.py           a topic, its partitions, the nodes that lead them
names.py           valid and reserved topic names
produce.py         validates and appends a producer's batch
fetch.py           reads batches for consumers
delayed_fetch.py   fetches that wait for more bytes
topic_deletion.py  removes the folders of deleted topics
admin.py           validation of CreateTopics, CreatePartitions, DeleteTopics
alter_configs.py   AlterConfigs and IncrementalAlterConfigs
config_changes.py  changes of single keys, for every kind of resource
broker_configs.py  which broker keys can be changed, and to which values
security_state.py  SCRAM credentials, ACLs and client quotas
acls.py            ACLs, and which of them apply to a resource
kafka_import.py    imports a data folder written by Kafka
kafka_metadata.py  the metadata in such a folder: topics, users, ACLs, quotas
scram.py           SCRAM credentials

config_def.py      typed keys: parsing and validation, for the broker's keys too
config_keys.py     all topic keys: type, default, limits and broker synonyms
broker_loggers.py  the levels of the broker's loggers
client_metrics.py  the keys of client metrics subscriptions
group_configs.py   all group keys, and the validation of a group's overrides
configs.py         the effective configuration: overrides, broker values, defaults
"""
