"""Sockets -> coordinator -> log -> replies. Start reading at groups/, then runtime.py."""
