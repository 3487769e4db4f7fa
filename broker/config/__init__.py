"""Broker configuration: Kafka's server.properties keys with the origin of every value.

broker_config.py   BrokerConfig: what the broker runs with;  settings.py: typed values with origins
keys.py            every key: type, default, bounds;  ignored_keys.py: keys without effect
sources.py         properties files, environment variables, `key=value` overrides
listeners.py       where to bind, and the address that clients receive
"""
