"""Descriptions of the endpoints' parameters, for `kohort ctl COMMAND --help`, the OpenAPI document
and docs/control.md.

This module imports only `typing`, because `kohort ctl` works without the extra `control`.
"""

from typing import Final

PARAMETERS: Final = {
    "group": "the group id",
    "transactional_id": "the transactional.id of the producer",
    "topic": "the name of the topic",
    "partition": "the partition number, starting at 0",
    "member": "a member id, an instance id or a client id",
    "client_id": "only requests with this client id",
    "api": "Kafka's name for the API, such as OffsetCommit",
    "node_id": "the node number, starting at 1",
    "hold": "the number of the hold",
    "fault": "the number of the fault",
    "fake_member": "the number of the fake member",
    "snapshot": "the number of the snapshot",
    "timeout": "how long to wait, in seconds of wall-clock time (default: 10)",
    "days": "days to advance",
    "hours": "hours to advance",
    "minutes": "minutes to advance",
    "seconds": "seconds to advance",
    "ms": "milliseconds to advance",
    "heartbeats": "stop before the end of each connected client's session until the client has "
    "sent a heartbeat",
    "partitions": "the number of partitions (default: num.partitions of the broker)",
    "config": "topic configs, such as retention.ms=1000",
    "total": "the new number of partitions",
    "values": "the record values",
    "keys": "the record keys, one per value (default: null)",
    "headers": "headers of each record, such as trace=7",
    "encoding": "the encoding of keys, values and header values: text or base64 (default: text)",
    "limit": "the maximum number of records to return (default: 1000)",
    "until": "stable (with this number of `members`, all with their assignment), generation (this "
    "`generation` or a later one), epoch (every member, or this `member`, has this member `epoch` "
    "or a later one), owner (`topic` and `partition` are assigned to `member`), "
    "committed (this `offset` or a later one for `topic` and `partition`), empty or gone",
    "members": "with until=stable, the number of members (default: any)",
    "generation": "with until=generation, the generation id or the group epoch",
    "epoch": "with until=epoch, the member epoch of `member` (default: of every member); with "
    "until=owner, the member epoch of the owner (default: any)",
    "protocol": "the member's group protocol: classic or consumer (default: classic)",
    "offset": "with until=committed, the offset (default: any)",
    "reason": "the reason shown in logs and events (default: requested by a test)",
    "count": "the number of requests to wait for (default: 1)",
    "topics": "the topics to which the member subscribes",
    "assignor": "range, roundrobin, sticky or cooperative-sticky (default: all that the group's "
    "members support); in the consumer protocol, uniform or range",
    "session_timeout_ms": "the member's session.timeout.ms (default: 45000)",
    "read_committed": "only records that a consumer with this isolation level reads",
    "rebalance_timeout_ms": "the member's max.poll.interval.ms (default: 300000)",
    "may_be_rejected": "succeed even if the member cannot join",
    "power": "also lose unsynced data, as in a power failure",
    "seed": "the random seed (default: 0)",
    "error": "with action=answer, Kafka's name for the error, such as NOT_COORDINATOR",
    "nth": "fire from the nth matching request on (default: 1)",
    "times": "how many times to fire (default: 1; without limit: null, or always in kohort ctl)",
    "probability": "fire with this probability, above 0 and at most 1 (default: always)",
    "jitter_ms": "with latency, the maximum random deviation in milliseconds",
    "bytes_per_second": "with limit_bandwidth, the response rate",
    "after": "only requests after the request with this number (default: 0, all)",
}

_DURATION: Final = "the duration of delay, delay_answer, apply_late and throttle, in {}"
_AMOUNT: Final = (
    "the time that latency or slow_sync adds, or by which skew_clock moves a clock "
    "(negative: backwards), in {}"
)

BY_PATH: Final = {
    "/topics/{topic}/records": {
        "partition": "the number of the partition (default: all; to append: by key or round-robin)",
    },
    "/groups/{group}/wait": {
        "topic": "with until=owner and until=committed, the topic",
        "partition": "with until=owner and until=committed, the number of the partition",
        "member": "with until=owner and until=epoch, a member id, an instance id or a client id "
        "(default: any member; with until=epoch, all members)",
    },
    "/transactions/{transactional_id}/wait": {
        "until": "open (it has partitions, and has not ended), committed or aborted (its markers "
        "are written)",
    },
    "/groups/{group}/holds": {"api": "JoinGroup, SyncGroup or ConsumerGroupHeartbeat"},
    "/groups/{group}/fake-members": {
        "client_id": "the member's client id (default: fake-member- followed by a number)",
        "instance_id": "the member's group.instance.id (default: a dynamic member)",
    },
    "/fake-members/{fake_member}/wait": {
        "partitions": "the number of partitions that the member owns (default: at least one)",
    },
    "/fake-members/{fake_member}/script": {
        "action": "stop_polling: it does not rejoin until resume_polling; suspend: it sends "
        "nothing until resume; kill: it ends without leaving the group; leave: it leaves the "
        "group; restart: it continues as a new process; close: it shuts down like a consumer",
    },
    "/fake-members/{fake_member}/commit": {
        "offset": "the offset to commit",
        "generation": "the generation id (default: the member's own)",
        "member_id": "the member id (default: the member's own)",
    },
    "/crash": {"seed": "with power, lose a random part of the unsynced data (default: all of it)"},
    "/faults": {
        "action": "answer with an `error`; delay the request, or with delay_answer only its "
        "response; never_answer; close the connection without handling the request (drop), after "
        "handling it (lose_answer), or before handling it later (apply_late); close_mid_frame: "
        "close the connection after half of the response; trickle: send it one byte at a time; "
        "corrupt the response; throttle the client",
        "seconds": _DURATION.format("seconds"),
        "ms": _DURATION.format("milliseconds"),
        "group": "only requests of this group",
        "member": "only requests of this member (a member id or a client id)",
        "instance_id": "only requests with this group.instance.id",
        "generation": "only requests with this generation or member epoch; in a "
        "ConsumerGroupHeartbeat, 0 means join, -1 leave, and -2 leave temporarily",
        "transactional_id": "only requests with this transactional id",
        "topic": "only requests with this topic",
        "partition": "only requests with this partition",
        "node": "only requests to this node; the first is 1",
        "seed": "the random seed for the probability (default: 0)",
    },
    "/conditions": {
        "condition": "latency of each request; limit_bandwidth of responses; network_partition "
        "between a `client_id` and a `node` (default: all clients or nodes); skew_clock of a "
        "`node`; slow_sync: each sync of a file takes longer",
        "api": "with latency and limit_bandwidth, only requests of this API",
        "seconds": _AMOUNT.format("seconds"),
        "ms": _AMOUNT.format("milliseconds"),
        "group": "with latency and limit_bandwidth, only requests of this group",
        "topic": "only requests with this topic; with slow_sync, only its files",
        "partition": "only requests with this partition; with slow_sync, only its files",
        "node": "only this node; the first is 1",
        "times": "end after firing this many times (default: without limit)",
    },
    "/faults/{fault}/wait": {"times": "how many times the fault has fired (default: 1)"},
    "/requests": {
        "api": "only requests of this API (Kafka's name), such as OffsetCommit",
        "group": "only requests of this group",
        "limit": "the maximum number of requests to return (default: 100)",
    },
    "/requests/wait": {
        "group": "only requests of this group",
    },
    "/events": {
        "group": "only events of this group",
        "limit": "the maximum number of events to return (default: 100)",
    },
}
"""Descriptions that differ from those in PARAMETERS, by path."""


def describe(path: str, name: str) -> str:
    """Return the description of a parameter of the endpoints with this path."""
    return BY_PATH.get(path, {}).get(name) or PARAMETERS[name]
