"""What a group's records and events add up to: pure functions, without Spark and files.

story.py   what is known of one group; rows.py: what the rules answer, as the gold tables have it
"""
