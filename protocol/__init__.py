"""Bytes <-> messages: framing, headers, the API table, response writers. Pure; kio underneath.

apis.py            what is served, in which versions;  profiles.py: what older Kafkas served of that
primitives.py      numbers, varints and strings: reading them within bounds, writing them
framing.py         a stream of bytes becomes frames;  headers.py: who asks what, in which version
messages.py        a request's body becomes kio's message, a message becomes a response's frame
guards.py          what is looked at before kio reads a body;  lenient.py: the reader for what kio
                   refuses and Kafka takes
writers.py         response writers: their source (writer_source.py) is made from kio's dataclass
                   fields (fields.py) and compiled;  writer_errors.py: which field was wrong
addresses.py       where somebody listens, as people write it
consumer_protocol.py   what members and their leader say to each other in opaque bytes
errors.py          what a client can do wrong on the wire
"""
