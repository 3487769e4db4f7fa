"""`kohort groups`: the counterpart of kafka-consumer-groups.

Scripts can use either tool, because flags, tables, messages and exit codes are the same. The
reference is the package org.apache.kafka.tools.consumer.group of Kafka 4.3.

arguments      flags and their allowed combinations
command        the actions --list, --describe, --delete and --delete-offsets
reset_offsets  --reset-offsets
cluster        groups and logs of a cluster, through kafka-python's admin client
connecting     the admin client, and why it cannot connect
tables         rows, Kafka's tables, JSON and CSV
errors         errors with the names and messages of Kafka's Java classes
"""
