"""Kafka's protocol: bytes become messages and messages become bytes. Pure; the schemas are kio's.

apis.py        the API table: which versions are served, by us and by older Kafkas
framing.py     frames and request headers
messages.py    decoders and encoders of requests and responses, by API key and version
schema.py      the fields of a message; the notation in which our own are declared
decoder.py     decoders, generated from schemas
encoder.py     encoders, generated from schemas
codegen.py     builder for generated Python source
primitives.py  varints, strings and numbers
consumer_protocol.py  subscriptions and assignments, which members and their leader exchange
errors.py      protocol errors, and how Kafka handles them
budgets.py     limits of requests and responses: what one client may cost the others
"""
