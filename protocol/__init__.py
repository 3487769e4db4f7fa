"""Kafka's wire protocol: decodes and encodes messages, without I/O. The schemas come from kio.

apis.py        the API table: the versions that kohort and older Kafka releases serve
framing.py     frames and request headers
bootstrap.py   parser for `bootstrap.servers`
messages.py    decoders and encoders of requests and responses, by API key and version
schema.py      the fields of a message; the notation for kohort's own messages
decoder.py     decoders, generated from schemas
encoder.py     encoders, generated from schemas
codegen.py     builder for generated Python source
primitives.py  varints, strings and numbers
consumer_protocol.py  subscriptions and assignments, exchanged by members and their leader
errors.py      protocol errors, and how Kafka responds to them
budgets.py     limits that keep one client from slowing down the others
"""
