"""`kohort acls`: the counterpart of kafka-acls, with the same flags, output and exit codes.

The reference is org.apache.kafka.tools.AclCommand of Kafka 4.3.

arguments  flags and their allowed combinations, and the ACLs that they describe
command    the actions --add, --remove and --list, through kafka-python's admin client
"""
