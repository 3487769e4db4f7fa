"""Topics: the registry, partitions on the log, produce and fetch, configuration.

registry.py        the topic registry
registry_log.py    the registry's records and its log
topics_view.py     the topics that clients see: the registry's and the mirror of the offsets topic
topic.py           a topic, its partitions, and the nodes that lead the partitions
names.py           valid and reserved topic names
configs/           configuration of topics, groups and client metrics
produce.py         validates and appends a producer's batch
fetch.py           reads batches for consumers
delayed_fetch.py   fetches that wait for more bytes
topic_deletion.py  removes the folders of deleted topics
admin.py           validation of CreateTopics, CreatePartitions, reassignments, DeleteTopics
alter_configs.py   AlterConfigs and IncrementalAlterConfigs
broker_configs.py  validation of changed broker keys and their values
security_state.py  SCRAM credentials, ACLs and client quotas, which the registry also stores
acls.py            ACLs, and an index that finds the ACLs that apply to a resource
kafka_import.py    imports a data folder written by Kafka
kafka_metadata.py  the metadata in Kafka's data folder: topics, users, ACLs, quotas
scram.py           SCRAM credentials
"""
