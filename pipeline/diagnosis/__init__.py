"""What a group's records and events add up to: pure functions, without Spark and files.

story.py       what is known of one group; rows.py: answers, as the gold tables have them
consumers.py   how a group of the consumer protocol (KIP-848) is
reading.py     stories of a log that a source has read, without a lake
rebalances.py  why each rebalance was, why each member went. Start here.
  causes.py    the fifteen rules; leaving.py: those of members that went; silence.py: for how long
  events.py    what the coordinator's event log adds
  moves.py     who got whose partitions; pauses.py: how long nothing was read
  history.py   a story with its indexes; words.py: how evidence is put into words
storms.py      rebalances that follow each other; skew.py: shares; lifecycle.py: beginning and end
verdict.py     what is to be said of a group, by what is known of it (findings.py)
  complaints.py  what may be wrong; slow.py: the slow consumer
status.py      what partitions and groups are in; burrow.py: in Burrow's words; lag.py: lag in time
"""
