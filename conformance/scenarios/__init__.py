"""Kafka's behavior, with one module for each part. Each decorated function is a scenario: the
decorator states the rule, and the body sends the requests that show it. Kafka's responses are in
../transcripts.

Classic groups
  joining.py, syncing.py, heartbeats.py, leaving.py   the life of a member
  static_members.py   replacement and fencing;  limits.py: sizes of groups and records, group ids
  commits.py          committed offsets;  administration.py: requests of admin clients

Groups of the consumer protocol (KIP-848)
  consumer_joining.py, consumer_leaving.py, consumer_validation.py   ConsumerGroupHeartbeat
  consumer_reconciliation.py, consumer_assignors.py   how partitions move between members
  consumer_topics.py, consumer_regex.py   subscriptions;  consumer_static_members.py: static members
  consumer_offsets.py, consumer_administration.py     offsets and admin clients
  group_configs.py    group configurations
  migration_upgrade.py, migration_downgrade.py, migration_policies.py, mixed_groups.py
                      groups whose members use both protocols

Topics and transactions
  topics.py           topic creation, batches, offsets;  fetch_sessions.py: incremental fetches
  transactions_producers.py, transactions_partitions.py, transactions_offsets.py   requests
  transactions_producing.py, transactions_reading.py, transactions_ending.py   records and ends
  transactions_administration.py   requests of admin clients

The cluster
  acls.py             ACLs;  permissions: cluster_authorization.py, group_authorization.py,
                      topic_authorization.py, transactions_authorization.py
  client_quotas.py, scram_credentials.py   quotas and users
  broker_configs.py   configurations of brokers and broker loggers; client metrics subscriptions
  telemetry.py        client metrics (KIP-714)
  api_versions.py     the listed APIs and features
  quorum.py, reassignments.py   the quorum, features, replicas
"""
