"""What is committed: records in Kafka's __consumer_offsets bytes, and the table in front of them."""
