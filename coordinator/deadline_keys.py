"""The keys of a group's deadlines. One of each at a time: setting it again replaces it.

session  a member must show itself until then; a pending id must join until then
join     the round that gathers members ends then
sync     who still owes its sync is out then

And one of the whole partition, EXPIRING: all groups are looked at for what has expired.
"""

from typing import Literal, NamedTuple, TypeAlias

from .deadlines import Deadlines


class DeadlineKey(NamedTuple):
    kind: Literal["session", "join", "sync", "expiring"]
    group_id: str
    member_id: str = ""


EXPIRING = DeadlineKey("expiring", "")


GroupDeadlines: TypeAlias = Deadlines[DeadlineKey]
