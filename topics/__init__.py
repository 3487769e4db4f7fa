"""What exists: the registry of topics, their partitions on the log, idempotent producers' state."""
