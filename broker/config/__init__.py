"""Broker configuration: Kafka's server.properties keys, each value with its origin.

broker_config.py   BrokerConfig: the values a broker runs with, validated
keys.py            every key: type, default, bounds
ignored_keys.py    keys of Kafka that have no effect in kohort
sources.py         properties files, environment variables, `key=value` overrides
listeners.py       `listeners` and `advertised.listeners`;  users.py: `kohort.users`
"""
