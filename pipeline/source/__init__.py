"""What there is to read: the offsets log in a folder or behind a broker, as Arrow batches."""
