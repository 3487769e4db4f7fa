"""Configuration of topics, groups and client metrics: keys, values and changes.

config_def.py      typed keys, with parsing and validation, also for the broker's keys
topic_keys.py      all topic keys: type, default, limits and broker synonyms
group_configs.py   all group keys, and the validation of a group's overrides
client_metrics.py  the keys of client metrics subscriptions
regexes.py         compiles clients' regular expressions
effective.py       the effective configuration: overrides, broker values, defaults
changes.py         changes to single keys, for every kind of resource
broker_loggers.py  the broker's logger levels
"""
