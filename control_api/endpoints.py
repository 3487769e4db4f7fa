"""The table of endpoints. If several endpoints match a path, the first one is used."""

from typing import Final

from . import broker, fake_members, groups, requests, topics, transactions
from .endpoint import Endpoint

_TRANSACTION: Final = "/transactions/{transactional_id}"

SECTIONS: Final[dict[str, tuple[Endpoint, ...]]] = {
    "Broker and clock": (
        Endpoint("GET", "/cluster", broker.cluster),
        Endpoint("GET", "/event-loop", broker.event_loop),
        Endpoint("POST", "/reset", broker.reset),
        Endpoint("GET", "/clock", broker.clock),
        Endpoint("POST", "/clock/freeze", broker.freeze_clock),
        Endpoint("POST", "/clock/resume", broker.resume_clock),
        Endpoint("POST", "/clock/advance", broker.advance_clock),
    ),
    "Topics": (
        Endpoint("GET", "/topics", topics.topics),
        Endpoint("POST", "/topics/{topic}", topics.create_topic),
        Endpoint("GET", "/topics/{topic}", topics.topic),
        Endpoint("DELETE", "/topics/{topic}", topics.delete_topic),
        Endpoint("POST", "/topics/{topic}/partitions", topics.add_partitions),
        Endpoint("POST", "/topics/{topic}/records", topics.produce),
        Endpoint("GET", "/topics/{topic}/records", topics.records),
    ),
    "Groups": (
        Endpoint("GET", "/groups", groups.groups),
        Endpoint("GET", "/groups/{group}", groups.group),
        Endpoint("POST", "/groups/{group}/wait", groups.wait),
        Endpoint("GET", "/groups/{group}/explain", groups.explain),
        Endpoint("GET", "/groups/{group}/offsets", groups.offsets),
        Endpoint("GET", "/groups/{group}/lag", groups.lag),
        Endpoint("GET", "/groups/{group}/generations", groups.generations),
        Endpoint("GET", "/groups/{group}/assignments", groups.assignments),
        Endpoint("GET", "/groups/{group}/commits", groups.commits),
        Endpoint("GET", "/groups/{group}/rejected-commits", groups.rejected_commits),
        Endpoint("GET", "/groups/{group}/exits", groups.exits),
        Endpoint("GET", "/groups/{group}/state-changes", groups.state_changes),
    ),
    "Group control": (
        Endpoint("POST", "/groups/{group}/rebalance", groups.rebalance),
        Endpoint("POST", "/groups/{group}/lead", groups.lead),
        Endpoint("POST", "/groups/{group}/expire", groups.expire),
        Endpoint("POST", "/groups/{group}/fence", groups.fence),
        Endpoint("POST", "/groups/{group}/evict", groups.evict),
        Endpoint("POST", "/groups/{group}/move", groups.move),
        Endpoint("POST", "/groups/{group}/loading", groups.load),
        Endpoint("DELETE", "/groups/{group}/loading", groups.finish_loading),
        Endpoint("POST", "/groups/{group}/assignment-hold", groups.hold_assignment),
        Endpoint("DELETE", "/groups/{group}/assignment-hold", groups.release_assignment),
        Endpoint("POST", "/groups/{group}/holds", groups.hold),
        Endpoint("GET", "/holds", groups.holds),
        Endpoint("POST", "/holds/{hold}/wait", groups.wait_hold),
        Endpoint("DELETE", "/holds/{hold}", groups.release),
    ),
    "Transactions": (
        Endpoint("GET", "/transactions", transactions.transactions),
        Endpoint("GET", _TRANSACTION, transactions.transaction),
        Endpoint("POST", f"{_TRANSACTION}/wait", transactions.wait_transaction),
        Endpoint("POST", f"{_TRANSACTION}/abort", transactions.abort_transaction),
        Endpoint("POST", f"{_TRANSACTION}/expire", transactions.expire_transactional_id),
        Endpoint("POST", f"{_TRANSACTION}/marker-hold", transactions.hold_markers),
        Endpoint("POST", f"{_TRANSACTION}/marker-hold/wait", transactions.wait_markers),
        Endpoint("DELETE", f"{_TRANSACTION}/marker-hold", transactions.release_markers),
        Endpoint("GET", f"{_TRANSACTION}/changes", transactions.transaction_changes),
    ),
    "Fake members": (
        Endpoint("POST", "/groups/{group}/fake-members", fake_members.add_fake_member),
        Endpoint("GET", "/fake-members/{fake_member}", fake_members.fake_member),
        Endpoint("POST", "/fake-members/{fake_member}/wait", fake_members.wait_fake_member),
        Endpoint("POST", "/fake-members/{fake_member}/script", fake_members.script_fake_member),
        Endpoint("POST", "/fake-members/{fake_member}/commit", fake_members.commit_fake_member),
    ),
    "Nodes, crashes, snapshots": (
        Endpoint("POST", "/nodes/{node_id}/stop", broker.stop_node),
        Endpoint("POST", "/nodes/{node_id}/start", broker.start_node),
        Endpoint("POST", "/crash", broker.crash),
        Endpoint("POST", "/restart", broker.restart),
        Endpoint("POST", "/snapshots", broker.take_snapshot),
        Endpoint("POST", "/snapshots/{snapshot}/restore", broker.restore_snapshot),
    ),
    "Faults": (
        Endpoint("POST", "/faults", requests.set_fault),
        Endpoint("POST", "/conditions", requests.set_condition),
        Endpoint("GET", "/faults", requests.faults),
        Endpoint("POST", "/faults/check", requests.check_faults),
        Endpoint("GET", "/faults/{fault}", requests.fault),
        Endpoint("POST", "/faults/{fault}/wait", requests.wait_fault),
        Endpoint("DELETE", "/faults/{fault}", requests.cancel_fault),
    ),
    "History": (
        Endpoint("GET", "/requests", requests.requests),
        Endpoint("POST", "/requests/wait", requests.wait_request),
        Endpoint("GET", "/events", requests.events),
    ),
}
ENDPOINTS: Final = tuple(endpoint for section in SECTIONS.values() for endpoint in section)
