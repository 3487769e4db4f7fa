"""A real cluster through kafka-python: for `--kafka-cluster`, and for `kohort groups`."""
