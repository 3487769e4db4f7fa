"""Bytes <-> messages: framing, headers, the API table, response writers. Pure; kio underneath."""
