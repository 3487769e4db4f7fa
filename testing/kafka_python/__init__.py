"""Access to a real cluster through kafka-python, for `--kafka-cluster` and for `kohort groups`.

cluster                   topics, records, groups, offsets
group_views               groups as seen by an admin client
consumer_group_describe   the API that kafka-python lacks
"""
