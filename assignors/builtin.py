"""Kafka's own strategies, by the name that members vote for: the consumers', then the broker's."""

from .model import Assignor
from .range import Range
from .roundrobin import RoundRobin
from .server_range import ServerRange
from .sticky.cooperative import CooperativeSticky
from .sticky.eager import Sticky
from .uniform import Uniform

BUILTIN: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        Range(),
        RoundRobin(),
        Sticky(),
        CooperativeSticky(),
        Uniform(),
        ServerRange(),
    )
}
