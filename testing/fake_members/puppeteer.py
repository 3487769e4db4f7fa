"""How a test gets its puppets: what it says of one; and when it gets it, that has joined."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from ...assignors.model import Assignor
from ...assignors.resolve import checked
from ..waiting import TIMEOUT_SECONDS
from .arriving import arrive
from .asking import Identity
from .consumer import Consumer
from .puppet import Puppet
from .role import Role
from .worker import Worker

if TYPE_CHECKING:
    from ..kafka import Kafka
    from .all import Puppets

Strategy: TypeAlias = str | Assignor | type[Assignor]
"""An assignor's name (kohort.assignors.resolve), or itself (kohort.assignors.model)."""
ProtocolType: TypeAlias = Literal["consumer", "connect"]


class Puppeteer:
    """Part of Kafka (kafka.py)."""

    puppets: "Puppets"
    _puppet_type: type[Puppet] = Puppet

    def puppet(
        self,
        group: str,
        topics: Iterable[str] = (),
        *,
        assignor: Strategy | Iterable[Strategy] = "range",
        client_id: str | None = None,
        instance_id: str | None = None,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        protocol_type: ProtocolType = "consumer",
        connectors: Mapping[str, int] | None = None,
        may_be_refused: bool = False,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Puppet:
        """A scripted member of this group (puppets/), subscribed to `topics`.

        When this returns, it has joined, as far as that is the broker's doing: it is in a
        generation, or its join waits for other members, for the clock, or for what the test itself
        has put in its way (a hold, a fault, a coordinator that loads, a node that is down). Raises
        PuppetRefused, with the broker's error, where it may not join; a test that wants just that
        says `may_be_refused`, and looks at its `errors`. Raises BarrierTimeout. (Each that joins is
        a round for all the others; within `with group.hold_joins():` a hundred come to one.)

        `assignor`: one, or several in the order of preference, by the names that
        kohort.assignors.resolve knows, or as objects. Timeouts are those of Java's consumer
        (session.timeout.ms, max.poll.interval.ms); a heartbeat goes out three times in a session,
        and each is a stop of a clock that is advanced: where that goes by days, let sessions be
        long. `connectors`, for protocol_type `connect`: the number of tasks of each. Raises
        AssignorNotFound, and ValueError for what does not go together."""
        kafka = cast("Kafka", self)
        find = self.puppets.find
        client_id = self.puppets.named(client_id)
        role: Role
        if protocol_type == "consumer":
            if connectors is not None:
                raise ValueError('connectors are for protocol_type="connect"')
            role = Consumer(_assignors(assignor, find), _listed(topics))
        elif protocol_type == "connect":
            if connectors is None or list(topics):
                raise ValueError("a Connect worker has connectors={name: tasks}, and no topics")
            role = Worker(connectors, f"http://{client_id}:8083/")
        else:
            raise ValueError(f"a puppet is a consumer or a connect worker, no {protocol_type}")
        identity = Identity(group, client_id, instance_id, session_timeout_ms, rebalance_timeout_ms)
        member = self.puppets.add(identity, role)
        arrive(kafka, member, timeout, may_be_refused=may_be_refused)
        return self._puppet_type(kafka, member)


def _assignors(
    said: Strategy | Iterable[Strategy], find: Callable[[str], Assignor]
) -> list[Assignor]:
    if isinstance(said, str):
        return [find(said)]
    if not isinstance(said, type) and isinstance(said, Iterable):
        return [each for one in said for each in _assignors(one, find)]
    return [checked(said, repr(said))]


def _listed(topics: Iterable[str]) -> list[str]:
    if isinstance(topics, str):
        raise TypeError(f'topics is a list of names: ["{topics}"]')
    return list(topics)
