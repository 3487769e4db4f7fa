"""The commands of `kohort ctl`: each asks one endpoint of the controls (docs/control.md).

What stands in the path is said by place, and so is what a command is about; the rest by flags. The
names of flags are those of the endpoint's fields; the broker checks what they say.
"""

from typing import Final, NamedTuple


class Command(NamedTuple):
    name: str
    method: str
    path: str
    help: str
    places: tuple[str, ...] = ()
    """Said by place, after what the path names."""
    flags: tuple[str, ...] = ()


_WHOM: Final = ("group", "member", "instance_id", "client_id", "topic", "partition", "node")
_WHEN: Final = ("nth", "times", "probability", "seed")
_BARRIER: Final = ("members", "generation", "topic", "partition", "who", "offset", "timeout")
_TIME: Final = ("days", "hours", "minutes", "seconds", "ms")
_TIMEOUTS: Final = ("session_timeout_ms", "rebalance_timeout_ms")
_REQUESTS: Final = ("group", "client_id", "after")

COMMANDS: Final = (
    Command("cluster", "GET", "/cluster", "where clients connect, and the nodes"),
    Command("reset", "POST", "/reset", "a broker as new, at the same address"),
    Command("clock", "GET", "/clock", "the broker's time"),
    Command("freeze", "POST", "/clock/freeze", "let its time stand still"),
    Command("resume", "POST", "/clock/resume", "let it go on"),
    Command("advance", "POST", "/clock/advance", "let so much time pass at once", flags=_TIME),
    Command("topics", "GET", "/topics", "the names of all topics"),
    Command(
        *("topic", "POST", "/topics/{topic}", "make a topic, if it is not there"),
        flags=("partitions", "config"),
    ),
    Command("describe-topic", "GET", "/topics/{topic}", "its partitions, and where they end"),
    Command("delete-topic", "DELETE", "/topics/{topic}", "delete it"),
    Command(
        *("add-partitions", "POST", "/topics/{topic}/partitions", "let it have so many in all"),
        places=("total",),
    ),
    Command(
        *("produce", "POST", "/topics/{topic}/records", "append records"),
        places=("values",),
        flags=("keys", "partition", "headers", "encoding"),
    ),
    Command(
        *("records", "GET", "/topics/{topic}/records", "what is in it"),
        flags=("partition", "limit", "encoding"),
    ),
    Command("groups", "GET", "/groups", "all groups"),
    Command("group", "GET", "/groups/{group}", "its state, its members and what they are assigned"),
    Command(
        *("wait", "POST", "/groups/{group}/wait", "until a group is stable, gone, …"),
        places=("until",),
        flags=_BARRIER,
    ),
    Command("offsets", "GET", "/groups/{group}/offsets", "what it has committed"),
    Command(
        *("lag", "GET", "/groups/{group}/lag", "how many records of a topic it is behind"),
        places=("topic",),
    ),
    Command("story", "GET", "/groups/{group}/story", "why it is where it is"),
    Command("generations", "GET", "/groups/{group}/generations", "its rounds, and their causes"),
    Command("commits", "GET", "/groups/{group}/commits", "every commit: who, when, from, to"),
    Command("refused-commits", "GET", "/groups/{group}/refused-commits", "and those refused"),
    Command("exits", "GET", "/groups/{group}/exits", "who is out, and why"),
    Command(
        *("rebalance", "POST", "/groups/{group}/rebalance", "open a round"),
        flags=("reason",),
    ),
    Command(
        *("lead", "POST", "/groups/{group}/lead", "open a round that this member leads"),
        places=("who",),
    ),
    Command(
        *("expire", "POST", "/groups/{group}/expire", "end a member's session now"),
        places=("who",),
    ),
    Command(
        *("evict", "POST", "/groups/{group}/evict", "remove a member as an administrator does"),
        places=("who",),
        flags=("reason",),
    ),
    Command(
        *("move", "POST", "/groups/{group}/move", "let another node coordinate it"),
        places=("node_id",),
    ),
    Command("load", "POST", "/groups/{group}/loading", "let its coordinator read its log anew"),
    Command("finish-loading", "DELETE", "/groups/{group}/loading", "let it be done with that"),
    Command(
        *("hold", "POST", "/groups/{group}/holds", "keep its JoinGroup or SyncGroup at the door"),
        places=("api",),
    ),
    Command("stop-node", "POST", "/nodes/{node_id}/stop", "stop a node"),
    Command("start-node", "POST", "/nodes/{node_id}/start", "let it come back"),
    Command(
        *("crash", "POST", "/crash", "let the process die, and another take its place"),
        flags=("power", "seed"),
    ),
    Command("restart", "POST", "/restart", "stop it and start it again"),
    Command("snapshot", "POST", "/snapshots", "remember what is on its disk"),
    Command("restore", "POST", "/snapshots/{snapshot}/restore", "let it be as it was then"),
    Command(
        *("puppet", "POST", "/groups/{group}/puppets", "add a scripted member"),
        places=("topics",),
        flags=("assignor", "client_id", "instance_id", *_TIMEOUTS, "may_be_refused", "timeout"),
    ),
    Command("describe-puppet", "GET", "/puppets/{puppet}", "what it believes"),
    Command(
        *("wait-puppet", "POST", "/puppets/{puppet}/wait", "until it owns so many partitions"),
        flags=("partitions", "timeout"),
    ),
    Command(
        *("script", "POST", "/puppets/{puppet}/script", "let it be slow, silent, die, leave, …"),
        places=("deed",),
    ),
    Command(
        *("commit-puppet", "POST", "/puppets/{puppet}/commit", "let it commit"),
        places=("topic", "partition", "offset"),
        flags=("generation", "member_id"),
    ),
    Command("holds", "GET", "/holds", "what is held"),
    Command(
        *("wait-hold", "POST", "/holds/{hold}/wait", "until so many requests are held"),
        flags=("count", "timeout"),
    ),
    Command("release", "DELETE", "/holds/{hold}", "let them go on"),
    Command(
        *("fault", "POST", "/faults", "do something to requests: answer an error, drop, …"),
        places=("deed", "api"),
        flags=("error", "seconds", "ms", *_WHOM, *_WHEN),
    ),
    Command("faults", "GET", "/faults", "those that are set"),
    Command("describe-fault", "GET", "/faults/{fault}", "what it has met"),
    Command(
        *("wait-fault", "POST", "/faults/{fault}/wait", "until it has fired"),
        flags=("times", "timeout"),
    ),
    Command("cancel-fault", "DELETE", "/faults/{fault}", "let it do nothing from now on"),
    Command("check-faults", "POST", "/faults/check", "have all fired? All are forgotten"),
    Command(
        *("requests", "GET", "/requests", "what has arrived, the last ones"),
        flags=("api", *_REQUESTS, "limit"),
    ),
    Command(
        *("wait-request", "POST", "/requests/wait", "until a request has arrived"),
        places=("api",),
        flags=(*_REQUESTS, "count", "timeout"),
    ),
    Command(
        *("events", "GET", "/events", "what coordinators told, the last ones"),
        flags=("group", "limit"),
    ),
)
