"""`kohort conformance`: plays scenarios on any broker, and compares its responses with Kafka's
recorded responses. Only that command imports this package.

scenarios      what Kafka does. Read scenarios/heartbeats.py first, then docs/conformance.md
scenario.py    what a scenario is;  recordings.py: Kafka's transcripts of scenarios
script.py      what a scenario can do;  members.py, producers.py: the clients of a scenario
recorder.py    sends a scenario's requests, and writes the transcript;  records.py: record batches
transcript.py  responses without the ids, addresses and ordering that differ from run to run
differences.py the first step in which two transcripts differ, and the fields that differ
settings.py    broker settings that scenarios need
broker.py      a broker on which scripts run;  wire.py: connections to it
player.py      plays scenarios concurrently
snapshot.py    the state that scenarios can change on a broker: read before, restored afterwards
conformance.py which scenarios can run on a broker, and in which it differs from Kafka
report.py      the reports
"""
