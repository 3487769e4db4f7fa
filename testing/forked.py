"""A process that is forked from a test has copies of the sockets of its brokers, and lets go of
them.

`multiprocessing` forks, up to Python 3.13 on Linux. What a service in such a process kept open
would outlive its broker: nobody is refused by a node that is down, nobody hears that his connection
is cut, and the node cannot come back to its address, which is taken.
"""

import os
import socket
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from .life import Life

brokers: "WeakSet[Life]" = WeakSet()
"""All that were started in this process."""

_OPEN_FILES = "/dev/fd"


def _let_go() -> None:
    ports = {port for each in brokers for _, port in each.broker.addresses.values()}
    if not ports:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir(_OPEN_FILES):  # noqa: PTH208 (numbers, no paths)
        if _port_of(int(name)) in ports:
            # Not closed: the number is known to objects of the broker, and would be another file's.
            os.dup2(nothing, int(name), inheritable=False)
    os.close(nothing)


def _port_of(file: int) -> int | None:
    """At which this is a listener, or the server's end of a connection; None: it is neither."""
    try:
        with socket.socket(fileno=os.dup(file)) as copy:
            name = copy.getsockname()
    except OSError:
        return None
    return name[1] if copy.family in (socket.AF_INET, socket.AF_INET6) else None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
