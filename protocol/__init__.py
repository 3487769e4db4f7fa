"""Kafka's wire protocol: decodes and encodes its messages. No I/O; the schemas come from kio.

apis.py        the API table: versions served by kohort and by older Kafka releases
framing.py     frames and request headers
bootstrap.py   parser for `bootstrap.servers`
messages.py    decoders and encoders of requests and responses, by API key and version
schema.py      the fields of a message; the notation for kohort's own messages
decoder.py     decoders, generated from schemas
encoder.py     encoders, generated from schemas
codegen.py     builder for generated Python source
primitives.py  varints, strings and numbers
consumer_protocol.py  subscriptions and assignments, exchanged by members and their leader
errors.py      protocol errors, and how Kafka handles them
budgets.py     limits that keep one client from degrading the others
"""
