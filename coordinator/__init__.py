"""The group state machines: no bytes, no clock, no I/O. Read states.py first.

states       what each state answers to every request
coordinator  handle, tick, apply: the one door to all of this
commands, results, config   what goes in and comes out
group, members, turn, deadlines, deadline_keys, storing   what they work on
fencing      who may act?            joining     may this one be a member?
voting       which protocol?         replacing   a static member has come back
rebalance    is the round over?      syncing     who gets which assignment?
heartbeats   who is alive?           leaving     who goes?
commits      what is written?        fetches     what was?
describing   what is known of it?    deleting    what may be taken away?
expiring     what has had its time?  reasons     why does one join again?
subscriptions   which topics does it read?    refusing   what if it cannot be written?
foreign      what has Kafka left?    converting   what do groups of its other kinds answer?
voice, telling  what is said of all this: log lines and events
"""
