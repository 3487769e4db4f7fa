"""The history of a test, as text and as figures.

timeline  the text in the report of a failed test
page      the HTML page of --kafka-timeline
drawing   the figures on the page: one for each group, and one for the transactions
"""
