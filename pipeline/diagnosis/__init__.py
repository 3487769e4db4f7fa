"""What a group's records and events add up to: pure functions, without Spark and files."""
