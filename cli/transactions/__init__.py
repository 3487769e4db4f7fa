"""`kohort transactions`: the counterpart of kafka-transactions, with the same flags and output.

The reference is org.apache.kafka.tools.TransactionsCommand of Kafka 4.3.

arguments  commands and flags
command    the actions, through kafka-python's admin client
"""
