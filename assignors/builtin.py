"""The client-side strategies that Kafka's consumers bring along, by the name they vote for."""

from .model import Assignor
from .range import Range
from .roundrobin import RoundRobin
from .sticky.cooperative import CooperativeSticky
from .sticky.eager import Sticky

BUILTIN: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        Range(),
        RoundRobin(),
        Sticky(),
        CooperativeSticky(),
    )
}
