"""The group state machines: no bytes, no clock, no I/O. Read states.py first."""
