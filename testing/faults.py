"""Faults that a test puts between a client and the broker, and that must fire.

A fault names an API and an error as Kafka does, and whom it is for. One that never fires fails its
test, which would otherwise have tested nothing, and tells what nearly fitted.
"""

import random
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..protocol.apis import APIS, Api
from ..protocol.errors import ErrorCode
from . import deeds
from .asked import Asked, api_named, nearest
from .deeds import Deed
from .filters import Where
from .refusals import can_refuse
from .steering import Passage
from .waiting import TIMEOUT_SECONDS, BarrierTimeout

if TYPE_CHECKING:
    from .kafka import Kafka

# So many requests that nearly fitted are told.
NEAR_MISSES = 5


class UnusedFault(AssertionError):
    """A fault of the test has not fired as often as it was to."""


class Fault:
    """One that was set, as the methods of `kafka.faults` return it."""

    def __init__(
        self,
        kafka: "Kafka",
        what: str,
        deed: Deed,
        api: str,
        where: Where,
        times: int | None,
        nth: int,
        chance: tuple[float, int] | None,
    ) -> None:
        self._kafka = kafka
        self.what = what
        self.api = api
        self.where = where
        self.times = times
        self.fired: list[Asked] = []
        """The requests that it has met."""
        self._deed = deed
        self._nth = nth
        self._chance = chance and (chance[0], random.Random(chance[1]))
        self._fitting = 0
        self._near: list[tuple[Asked, list[str]]] = []
        self._since = 0
        self.is_set = True

    def __repr__(self) -> str:
        return f"<Fault {self.said}>"

    def cancel(self) -> None:
        """Do nothing from now on, and do not fail the test for that."""
        self._kafka.ask(lambda _broker: self._kafka.faults.forget(self))

    def wait(self, times: int = 1, timeout: float = TIMEOUT_SECONDS) -> "Fault":
        """Until it has fired so often; in vain, the message has what nearly fitted."""
        if not self._kafka.until(lambda: len(self.fired) >= times, timeout):
            raise BarrierTimeout(
                f"a fault was waited for {timeout:g} s, in vain.\n{self.tell(self._kafka)}"
            )
        return self

    # --- on the broker's loop

    def meets(self, passage: Passage) -> bool:
        """Do what it is to do, if the request fits. True: the request is kept."""
        asked = passage.asked
        if asked.api != self.api or self.is_used_up:
            return False
        if misses := self.where.misses(asked):
            self._nearly(asked, misses)
            return False
        self._fitting += 1
        if self._fitting < self._nth:
            self._nearly(asked, [f"number {self._fitting} of those that fit"])
            return False
        if self._chance is not None and self._chance[1].random() >= self._chance[0]:
            return False
        self.fired.append(asked)
        asked.faults.append(self.what)
        return self._deed(passage)

    def _nearly(self, asked: Asked, why: list[str]) -> None:
        """The nearest are kept, of the same nearness the first."""
        self._near.append((asked, why))
        self._near.sort(key=lambda near: len(near[1]))
        del self._near[NEAR_MISSES:]

    @property
    def is_used_up(self) -> bool:
        return self.times is not None and len(self.fired) >= self.times

    @property
    def is_unused(self) -> bool:
        """Whether it has fired less often than it was to: `times`, or at least once."""
        return len(self.fired) < (self.times or 1)

    @property
    def said(self) -> str:
        """What it is to do, and has done, in a line."""
        where = f" ({self.where})" if str(self.where) else ""
        times = "" if self.times in (None, 1) else f" of {self.times} times"
        return f"{self.api}{where}: {self.what}, fired {len(self.fired)}{times}"

    def tell(self, kafka: "Kafka") -> str:
        """What it was to do, and what nearly fitted."""
        lines = [self.said]
        lines += [f"    nearly: {asked}, but it was {', '.join(why)}" for asked, why in self._near]
        if not self._near and not self.fired:
            came = sorted({each.api for each in kafka.history.requests})
            lines.append(
                f"    no {self.api} has come since it was set; what came at all: "
                f"{', '.join(came) or 'nothing'}"
            )
        return "\n".join(lines)


F_co = TypeVar("F_co", bound=Fault, covariant=True)


class Faults(Generic[F_co]):
    """`kafka.faults`. Each method sets one fault and returns it; all take

    `group`, `member` (a member id, or the client id it begins with), `instance_id`, `client_id`,
    `topic`, `partition`, `node`: whom it is for; `nth`: from which fitting request on; `times`: how
    often (None: always); `probability` with `seed`: by chance, the same in each run.

    The first that fits a request has it to itself. One that is set must fire: see `check`."""

    _type: type[Any] = Fault

    def __init__(self, kafka: "Kafka") -> None:
        self._kafka = kafka
        self._set: list[F_co] = []

    def answer(self, api: str, error: str | int, **how: object) -> F_co:
        """Answer with an error (`NOT_COORDINATOR`, or its number) and do nothing of what is asked.
        Raises ValueError for an API whose answer has no room for an error."""
        code = _error_named(error)
        name = api_named(api)
        newest = _api(name)
        if not can_refuse(newest.key, newest.max_version):
            raise ValueError(f"an answer to {name} has no room for an error")
        return self._add(f"answered with {code.name.upper()}", deeds.answer(code), name, how)

    def delay(self, api: str, *, seconds: float = 0, ms: int = 0, **how: object) -> F_co:
        """Handle it so much later, by the wall clock; what its client sends after it waits too."""
        total = _ms(seconds, ms)
        return self._add(f"delayed by {total} ms", deeds.delay(total), api, how)

    def delay_answer(self, api: str, *, seconds: float = 0, ms: int = 0, **how: object) -> F_co:
        """Do what it asks at once, and answer so much later."""
        total = _ms(seconds, ms)
        return self._add(f"answered {total} ms late", deeds.delay_answer(total), api, how)

    def never_answer(self, api: str, **how: object) -> F_co:
        """Do nothing and say nothing; the connection stays open."""
        return self._add("never answered", deeds.never_answer, api, how)

    def drop(self, api: str, **how: object) -> F_co:
        """Break the connection and do nothing: outcome unknown, not applied."""
        return self._add("dropped before it was applied", deeds.drop, api, how)

    def lose_answer(self, api: str, **how: object) -> F_co:
        """Do it and break the connection in place of the answer: outcome unknown, applied."""
        return self._add("applied, its answer lost", deeds.lose_answer, api, how)

    def apply_late(self, api: str, *, seconds: float = 0, ms: int = 0, **how: object) -> F_co:
        """Break the connection now and do it so much later: outcome unknown, applied late."""
        total = _ms(seconds, ms)
        return self._add(f"applied {total} ms after the end", deeds.apply_late(total), api, how)

    def close_mid_frame(self, api: str, **how: object) -> F_co:
        """Do it, send half of the answer, and close."""
        return self._add("closed in the middle of the answer", deeds.close_mid_frame, api, how)

    def trickle(self, api: str, **how: object) -> F_co:
        """Answer, and from then on all on that connection, in pieces of one byte."""
        return self._add("answered byte by byte", deeds.trickle, api, how)

    def corrupt(self, api: str, *, seed: int = 0, **how: object) -> F_co:
        """Turn some bits of the answer round, behind its correlation id."""
        return self._add("its answer corrupted", deeds.corrupt(seed), api, how)

    @property
    def all(self) -> list[F_co]:
        """Those that are set."""
        return list(self._set)

    def clear(self, but: Collection[Fault] = ()) -> None:
        """Forget all of them but these, used or not."""
        self._set = [each for each in self._set if each in but]

    def check(self, but: Collection[Fault] = ()) -> None:
        """Raise UnusedFault if one, of these or of the disk's, has not fired as often as it was to.
        Done at the end of a test by the plugin, and at the end of `with Kafka()`. All are
        forgotten; not those in `but`, of which nothing is asked."""
        checked = [each for each in self._set if each not in but]
        self.clear(but)
        unused = [each.tell(self._kafka) for each in checked if each.is_unused]
        unused += self._kafka.disk.take_unused()
        if unused:
            raise UnusedFault("a fault of this test has not fired.\n" + "\n".join(unused))

    # --- on the broker's loop

    def forget(self, fault: Fault) -> None:
        if fault in self._set:
            self._set.remove(fault)

    def meet(self, passage: Passage) -> bool:
        """True: one of them keeps the request."""
        for fault in self._set:
            count = len(fault.fired)
            keeps = fault.meets(passage)
            if len(fault.fired) > count:
                return keeps
        return False

    def _add(self, what: str, deed: Deed, api: str, how: dict[str, Any]) -> F_co:
        name = api_named(api)
        fault: F_co = self._type(self._kafka, what, deed, name, *_terms(**how))
        fault.where.check(_api(name), list(self._kafka.broker.addresses))
        self._kafka.ask(lambda _broker: self._set.append(fault))
        return fault


def _terms(
    *,
    times: int | None = 1,
    nth: int = 1,
    probability: float | None = None,
    seed: int = 0,
    **where: Any,
) -> tuple[Where, int | None, int, tuple[float, int] | None]:
    """What a Fault takes besides its deed. Raises TypeError and ValueError."""
    unknown = where.keys() - Where.__dataclass_fields__.keys()
    if unknown:
        known = (*Where.__dataclass_fields__, "nth", "times", "probability", "seed")
        raise TypeError(f"a fault has no {min(unknown)}; there is: {', '.join(known)}")
    if nth < 1 or (times is not None and times < 1):
        raise ValueError("nth and times count from 1")
    if probability is not None and not 0 < probability <= 1:
        raise ValueError("probability is above 0 and at most 1")
    chance = None if probability is None else (probability, seed)
    return Where(**where), times, nth, chance


def _ms(seconds: float, ms: int) -> int:
    total = round(seconds * 1000) + ms
    if total <= 0:
        raise ValueError("say how long: seconds=… or ms=…")
    return total


def _api(name: str) -> Api:
    return next(api for api in APIS if api.name == name)


def _error_named(name: object) -> ErrorCode:
    """By its name or its number."""
    names = [code.name for code in ErrorCode]
    if isinstance(name, int) and not isinstance(name, bool):
        if name not in list(ErrorCode):
            raise ValueError(f"Kafka has no error of the number {name}")
        return ErrorCode(name)
    if not isinstance(name, str):
        raise TypeError(f"an error is Kafka's name of it, or its number, not {name!r}")
    if name.lower() not in names:
        known = [each.upper() for each in names]
        raise ValueError(f"Kafka has no error called {name}{nearest(name.upper(), known)}")
    return ErrorCode[name.lower()]
