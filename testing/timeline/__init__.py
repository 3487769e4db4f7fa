"""The history of a test, as text and as figures.

timeline  as text, for the report of a failed test
page      as an HTML page, for --kafka-timeline
drawing   the figures of that page: each group, and the transactions
"""
