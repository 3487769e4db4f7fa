"""Questions to a lake, answered with pyarrow alone: no Spark, and nothing is written.

answers.py    a lake that can be asked: its groups, one group's change, exits, lag. Start here.
rows.py       what an answer consists of: a row of each kind, and what its fields mean
names.py      what members are called, and which groups have a name like one that is not there
series.py     lag over time, with log ends between commits
words.py      times, spans and numbers as text
"""
