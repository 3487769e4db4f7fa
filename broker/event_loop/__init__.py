"""Cooperative tasks, timers and threads of the broker's event loop.

scheduler.py  cooperative tasks, in short slices
timers.py     the clock and deadlines
sync_pool.py  the threads that sync files
watchdog.py   durations of event loop callbacks, and log lines for long ones
"""
