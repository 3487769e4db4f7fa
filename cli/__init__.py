"""`kohort …`: Kafka-shaped flags, one sentence per error, exit code 2 for what the user can mend."""
