"""Segmented log of RecordBatch v2 in Kafka's file layout: append, sync, read, recover, roll."""
