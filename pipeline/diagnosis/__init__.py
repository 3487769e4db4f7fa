"""The rules: pure functions from the known history of a group to rows of the gold tables.

group_history.py    input: a group's records, commits, samples and events;  rows.py: output
history_index.py    transitions between records, commits by owner, log ends
rebalances.py       why each rebalance happened and why each member left. Start here.
  rebalance_rules.py  the fifteen rules;  exit_rules.py: rules 6 to 10, for members that left
  timing.py         silence of members, join phases, pauses
  event_log.py      causes and durations from the coordinator's event log
assignments.py      moved partitions and balance;  storms.py;  lifecycle.py: creation and end
status.py           status of partitions and groups;  burrow.py: Burrow's rules
lag.py              time lag, trend, rates
consumer_group.py   groups of the consumer protocol (KIP-848)
checks.py           the diagnosis of a group;  slow_consumer.py: its main check
  facts.py          input and results of the checks
"""
