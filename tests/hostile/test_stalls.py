"""A broker that is stopped for longer than the sessions of its members."""

import signal
import time

import pytest
from support.member import Member, only_member
from support.running_broker import WITHOUT_UVLOOP, config_flags

from .conftest import FULL, TURN_MS_MAX

SESSION_MS = 6000 if FULL else 1000
MEMBERS = 100 if FULL else 10


def new_member(address: str, group: str) -> Member:
    """Return the only member of a group."""
    return only_member(address, group, group=group, session_ms=SESSION_MS)


@pytest.mark.parametrize("kohort", [("-m", "kohort"), WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_members_with_heartbeats_in_the_socket_stay_when_the_broker_continues(attack, kohort):
    """One member uses a connection that it opened in the meantime. A silent member is removed."""
    options = ["group.min.session.timeout.ms=1000", "group.initial.rebalance.delay.ms=0"]
    # The broker may be stopped in the middle of an event loop callback.
    turn_ms_max = SESSION_MS * 1.5 + TURN_MS_MAX
    target = attack(*config_flags(options), kohort=kohort, turn_ms_max=turn_ms_max)
    process = target.broker.process
    members = [new_member(target.address, f"live-{number}") for number in range(MEMBERS)]
    silent = new_member(target.address, "silent")
    # All sessions begin now.
    assert {member.heartbeat() for member in (*members, silent)} == {"none"}
    process.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    members[0].close()
    members[0] = members[0].reconnected(target.address)
    for member in members:
        member.send_heartbeat()
    # This is not synchronization, but the length of the attack.
    time.sleep(SESSION_MS * 1.5 / 1000 - (time.monotonic() - stopped_at))
    process.send_signal(signal.SIGCONT)
    assert {member.receive()["error_code"] for member in members} == {"none"}
    with target.client() as client:
        while True:
            assert {member.heartbeat() for member in members} == {"none"}
            (group,) = client.call("DescribeGroups", 4, groups=["silent"])["groups"]
            if group["group_state"] == "Empty":
                break
    assert silent.heartbeat() == "unknown_member_id"
    for member in (*members, silent):
        member.close()
