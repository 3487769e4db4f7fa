"""Broker configuration: the keys of Kafka's server.properties, and the origin of each value.

broker_config.py   BrokerConfig: the values a broker runs with, validated
keys.py            the keys: type, default, bounds
ignored_keys.py    keys of Kafka that have no effect in kohort
sources.py         properties files, environment variables, `key=value` overrides
listeners.py       `listeners` and `advertised.listeners`;  users.py: `kohort.users`
"""
