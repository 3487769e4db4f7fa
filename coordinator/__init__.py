"""The group and transaction state machines. They encode nothing, read no clock and do no I/O. Start
with classic/states.py or consumer/heartbeat.py.

coordinator     Coordinator: handle, tick, apply; the only entry point of groups
commands        commands and their results
outcome         what a decision returns: records, replies, events
decision        what all decisions share: the state of a partition, configuration, interfaces
classic         classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
consumer        consumer groups (KIP-848): ConsumerGroupHeartbeat, migration from and to classic
transactions    transactional ids: producers, the partitions of a transaction, its end
offsets         committed offsets: commit (also in transactions), fetch, delete
offset_cleanup  expired offsets and groups, offsets of deleted topics
admin           DescribeGroups, ConsumerGroupDescribe, ListGroups, DeleteGroups
other_groups    groups of other types, written by a Kafka broker
deadlines       session, join and sync deadlines
"""
