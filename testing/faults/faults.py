"""Faults that a test sets on requests.

A fault is set with Kafka's names for APIs and errors, and with filters that select its requests. If
it fires fewer than `times` times, the test fails, because it did not test what it was written for.
The message lists the requests that nearly matched.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Self, TypeVar

from ...protocol.apis import APIS, Api
from ...protocol.errors import ErrorCode
from ...protocol.messages import request_schema
from ...protocol.schema import Field, Schema
from ...suggestions import SuggestsAttributes, did_you_mean
from ..explanation.conditions import conditions
from ..explanation.failed_connections import failed_connections
from ..explanation.hints import no_client
from ..interceptor import InterceptedRequest
from ..lifecycle import BrokerHost, MarkerHook
from ..loop_thread import TIMEOUT_SECONDS, count_times, timed_out
from ..recorded_request import (
    GENERATION_FIELDS,
    GROUP_FIELDS,
    PARTITION_FIELDS,
    TOPIC_FIELDS,
    TOPIC_PARENTS,
    TRANSACTION_FIELDS,
    RecordedRequest,
    find_api_name,
)
from ..timeline.timeline import name_member
from . import actions, network
from .actions import Action, has_error_code
from .disk import Disk, DiskFault
from .network import Condition

# The maximum number of near misses in a report.
NEAR_MISSES_MAX = 5
# The filters that apply to requests of every API.
FILTERS_OF_ALL = frozenset({"client_id", "node"})
# The filters whose values are not strings.
_NUMBERS = frozenset({"generation", "partition", "node"})
# In the classic protocol, a member id is the client id or the instance id, "-" and a UUID.
_SUFFIX_LENGTH = 1 + 36


class UnusedFault(AssertionError):
    """A fault has fired fewer times than required, or a marker hold has held back no markers. The
    message lists the near misses of a fault."""

    __module__ = "kohort.testing"  # the module that users import and test reports show


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFilter:
    """The requests that a fault applies to. A field that is None matches all requests."""

    group: str | None = None
    member: str | None = None
    """A member id, or the client id of a member."""
    instance_id: str | None = None
    generation: int | None = None
    """The generation, or the member epoch. In a ConsumerGroupHeartbeat (KIP-848), a member joins
    with 0, leaves with -1 and leaves temporarily with -2."""
    transactional_id: str | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    node: int | None = None

    def __post_init__(self) -> None:
        for name, value in self._given():
            type_ = int if name in _NUMBERS else str
            if not isinstance(value, type_):
                raise TypeError(f"{name} must be {type_.__name__}, not {value!r}")

    # --- on the broker's loop

    def mismatches(self, request: RecordedRequest) -> list[str]:
        """Return the properties of the request that do not match; empty if the request matches."""
        partitions = request.partitions if self.topic or self.partition is not None else ()
        topics = request.topics if self.topic else ()
        names = [f"{topic}-{index}" for topic, index in partitions] or topics
        listed = f"{'partitions' if partitions else 'topics'} {', '.join(names) or 'none'}"
        members = ", ".join(_describe_member(request, each) for each, _ in request.members)
        instances = [instance_id for _, instance_id in request.members]
        instance_ids = ", ".join(map(str, instances))
        # Whether the request matches, and the property that the request has.
        checks = {
            "group": (self.group in request.groups, f"group {request.group}"),
            "member": (self._matches_member(request), f"member {members}"),
            "instance_id": (self.instance_id in instances, f"instance id {instance_ids}"),
            "generation": (
                request.generation == self.generation,
                f"generation {request.generation}",
            ),
            "transactional_id": (
                self.transactional_id in request.transactional_ids,
                f"transactional id {request.transactional_id}",
            ),
            "client_id": (request.client_id == self.client_id, f"client {request.client_id}"),
            "topic": (self.topic in topics, listed),
            "partition": (any(map(self._matches_partition, partitions)), listed),
            "node": (request.node_id == self.node, f"node {request.node_id}"),
        }
        given = [checks[name] for name, _ in self._given()]
        return list(dict.fromkeys(has for matches, has in given if not matches))

    def check(self, api: Api | None, nodes: list[int]) -> None:
        """Raise ValueError if no request of this API (None: any) can match on a broker with these
        nodes."""
        # Schemas are loaded only if needed, because loading all of them blocks the event loop of an
        # async test for seconds. Without an API, any filter may match.
        if api is not None and not {name for name, _ in self._given()} <= FILTERS_OF_ALL:
            self._check_filters(api)
        if self.node is not None and self.node not in nodes:
            raise ValueError(
                f"This fault could never fire: node {self.node} does not exist; the nodes are "
                f"{', '.join(map(str, nodes))}"
            )

    def _check_filters(self, api: Api) -> None:
        possible = set(_filters_of(api))
        for name, value in self._given():
            if name not in possible:
                has = [each for each in self.__dataclass_fields__ if each in possible]
                raise ValueError(
                    f"This fault could never fire: {api.name} requests have no "
                    f"{name.replace('_', ' ')} ({name}={value!r}); they have {', '.join(has)}"
                )

    def _given(self) -> Iterator[tuple[str, object]]:
        for name in self.__dataclass_fields__:
            if (value := getattr(self, name)) is not None:
                yield name, value

    def _matches_member(self, request: RecordedRequest) -> bool:
        # Member ids of the consumer protocol (KIP-848) do not begin with the client id.
        if request.member_id is not None and request.client_id == self.member:
            return True
        ids = [member_id or "" for member_id, _ in request.members]
        return any(self.member in (each, each[:-_SUFFIX_LENGTH]) for each in ids)

    def _matches_partition(self, partition: tuple[str, int]) -> bool:
        return partition[1] == self.partition and self.topic in (None, partition[0])

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._given())


def _describe_member(request: RecordedRequest, member_id: str | None) -> str:
    # Admin clients remove other members, and a TxnOffsetCommit carries the producer's client id.
    if member_id is None or member_id != request.member_id or request.is_by_producer:
        return str(member_id)
    return name_member(member_id, request.client_id)


class Fault(SuggestsAttributes):
    """A fault, as returned by the methods of `kafka.faults`."""

    def __init__(
        self,
        host: BrokerHost,
        description: str,
        action: Action,
        api: str | None,
        where: RequestFilter,
        times: int | None,
        nth: int,
        probability: tuple[float, int] | None,
    ) -> None:
        self._host = host
        self.description = description
        self.api = api
        """None for requests of all APIs."""
        self.where = where
        self.times = times
        self.fired: list[RecordedRequest] = []
        """The requests to which the fault was applied."""
        self._action = action
        self._nth = nth
        self._chance = probability and (probability[0], random.Random(probability[1]))
        self._matched = 0
        self._near_misses: list[tuple[RecordedRequest, list[str]]] = []
        # The number of matching requests to which another fault was applied, by its description.
        self._taken: Counter[str] = Counter()
        self.is_cancelled = False

    def __repr__(self) -> str:
        return f"<Fault {self.summary}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()
        else:
            self.cancel()

    def cancel(self) -> None:
        """Remove the fault without failing the test."""
        self._host.call(self.remove)

    def end(self) -> None:
        """Remove the fault, like the end of `with kafka.faults.…:`. Raises UnusedFault if the fault
        has fired fewer times than required."""
        self.cancel()
        if self.is_unused:
            raise UnusedFault(f"unused fault\n{self.report()}")

    def wait(self, times: int = 1, timeout: float = TIMEOUT_SECONDS) -> "Fault":
        """Wait until the fault has fired this many times. Raises BarrierTimeout, whose message
        lists the near misses, and ValueError if `times` exceeds the fault's own."""
        if self.times is not None and times > self.times:
            raise ValueError(
                f"The fault fires only {count_times(self.times)}: set it with times={times}"
            )
        if not self._host.wait_until(lambda: len(self.fired) >= times, timeout):
            what = f"a fault to fire {count_times(times)}"
            unreached = self._host.call(
                lambda: [
                    *no_client(self._host),
                    *conditions(self._host),
                    *failed_connections(self._host),
                ]
            )
            raise timed_out(timeout, what, "\n".join([self.report(), *unreached]))
        return self

    @property
    def is_unused(self) -> bool:
        """Whether the fault has fired fewer than `times` times or, if `times` is None, has not
        fired at all."""
        return len(self.fired) < (self.times or 1)

    @property
    def summary(self) -> str:
        """The action of the fault, and how often it has fired, in one line."""
        times = "" if self.times in (None, 1) else f" of {self.times} times"
        return f"{self.effect}, fired {len(self.fired)}{times}"

    def report(self) -> str:
        """Return the summary, and the requests that nearly matched."""
        lines = [self.summary, *(f"    {each}" for each in self._mistyped())]
        lines += [
            f"    near miss ({', '.join(mismatches)}): {request}"
            for request, mismatches in self._near_misses
        ]
        uncounted = "; nth does not count them" if self._nth > 1 else ""
        lines += [
            f"    {count} matching request{'s' * (count > 1)} had an earlier fault ({other})"
            f"{uncounted}"
            for other, count in (self._taken.items() if self.is_unused else ())
        ]
        if not (self._near_misses or self._taken or self.fired):
            lines.append(f"    {self._why_none()}")
        return "\n".join(lines)

    def _why_none(self) -> str:
        if self._matched and self._chance is not None:
            requests = f"{self._matched} matching request{'s' * (self._matched > 1)}"
            return f"probability {self._chance[0]:g} selected none of {requests}"
        apis = sorted({each.api for each in self._host.history.requests})
        return (
            f"no {self.api or 'request'} has arrived since it was set; all requests so far: "
            f"{', '.join(apis) or 'none'}"
        )

    def _mistyped(self) -> Iterator[str]:
        """Yield a hint for each filter value that looks misspelled."""
        requests = [] if self.fired else self._host.history.requests
        for name, known in (
            ("group", {group for each in requests for group in each.groups}),
            (
                "transactional_id",
                {one for each in requests for one in each.transactional_ids},
            ),
            ("topic", {topic for each in requests for topic in each.topics}),
            ("client_id", {each.client_id for each in requests if each.client_id}),
        ):
            wanted = getattr(self.where, name)
            if wanted is not None and wanted not in known and (hint := did_you_mean(wanted, known)):
                yield f"no request has {name.replace('_', ' ')} {wanted}{hint}"

    # --- on the broker's loop

    @property
    def effect(self) -> str:
        """The action of the fault, and the requests that it applies to."""
        where = f" ({self.where})" if str(self.where) else ""
        return f"{self.api or 'any request'}{where}: {self.description}"

    def remove(self) -> None:
        self.is_cancelled = True
        if isinstance(self._action, Condition) and self in self._host.interception.hooks:
            self._host.interception.hooks.remove(self)
            self._action.end()

    def wants(self, api: str) -> bool:
        return self.is_active and self.api in (None, api)

    def intercept(self, request: InterceptedRequest) -> bool:
        return bool(self.apply(request))

    @property
    def is_condition(self) -> bool:
        """Whether the action is a Condition, which is a separate hook."""
        return isinstance(self._action, Condition)

    @property
    def is_active(self) -> bool:
        is_used_up = self.times is not None and len(self.fired) >= self.times
        return not (is_used_up or self.is_cancelled)

    def apply(self, request: InterceptedRequest) -> bool | None:
        """Return None if the fault does not apply to the request, and otherwise whether it takes
        over the request."""
        record = request.record
        if not self.wants(record.api):
            return None
        if mismatches := self.where.mismatches(record):
            self._add_near_miss(record, mismatches)
            return None
        self._matched += 1
        if self._matched < self._nth:
            self._add_near_miss(record, [f"match {self._matched}, fires from match {self._nth} on"])
            return None
        if self._chance is not None and self._chance[1].random() >= self._chance[0]:
            return None
        self.fired.append(record)
        if not isinstance(self._action, Condition) or self._action.is_recorded:
            record.faults.append(self.description)
        return self._action(request)

    def skip(self, record: RecordedRequest, earlier: "Fault") -> None:
        """Record a request to which an earlier fault was applied instead."""
        if self.wants(record.api) and not self.where.mismatches(record):
            self._taken[earlier.description] += 1

    def _add_near_miss(self, record: RecordedRequest, mismatches: list[str]) -> None:
        """Keep the near misses with the fewest mismatches; among equals, the earliest."""
        self._near_misses.append((record, mismatches))
        self._near_misses.sort(key=lambda near: len(near[1]))
        del self._near_misses[NEAR_MISSES_MAX:]


F_co = TypeVar("F_co", bound=Fault, covariant=True)


class Faults(SuggestsAttributes, Generic[F_co]):
    """`kafka.faults`: request faults. Each method sets one fault and returns it.

    All methods accept filters for the requests: `group`, `member` (a member id or the client id of
    a member), `instance_id`, `generation` (or the member epoch; a member joins with 0, leaves with
    -1 and leaves temporarily with -2), `transactional_id`, `client_id`, `topic`, `partition` and
    `node`. A fault fires `times` times (default: once, or always for a condition; None: always),
    beginning with the `nth` matching request; requests to which an earlier fault was applied do not
    count. With `probability`, it fires at random, but identically in each run with the same `seed`.

    Only the first fault that matches a request is applied to it, after the conditions (`latency`,
    `limit_bandwidth`, `network_partition`, `skew_clock`). A fault that fires fewer than `times`
    times fails the test (see `check`). `with kafka.faults.…:` removes the fault at the end of the
    block, and raises UnusedFault if it has fired too few times.
    """

    _type: type[Any] = Fault

    def __init__(self, host: BrokerHost, disk: Disk) -> None:
        self._host = host
        self.disk = disk
        self._set: list[F_co] = []

    def answer(self, api: str, error: str | int, **filters: object) -> F_co:
        """Respond with an error without handling the request. (A Metadata request is handled, and
        the topics in its response get the error. For a Produce with acks=0, the connection is
        closed.) `error` is Kafka's name for the error, such as `NOT_COORDINATOR`, or its code.
        Raises ValueError for an API whose response has no error code."""
        code = _find_error(error)
        name = find_api_name(api)
        newest = _api(name)
        if not has_error_code(newest.key, newest.max_version):
            raise ValueError(f"The response of {name} has no error code")
        action = partial(actions.answer, error=code)
        return self._add(f"answered with {code.name.upper()}", action, name, filters)

    def delay(self, api: str, *, seconds: float = 0, ms: int = 0, **filters: object) -> F_co:
        """Handle the request, and later requests on its connection, after a wall-clock delay."""
        delay_ms = _total_ms(seconds, ms)
        action = partial(actions.delay, ms=delay_ms)
        return self._add(f"delayed by {delay_ms} ms", action, api, filters)

    def delay_answer(self, api: str, *, seconds: float = 0, ms: int = 0, **filters: object) -> F_co:
        """Handle the request immediately, and respond after a wall-clock delay."""
        delay_ms = _total_ms(seconds, ms)
        action = partial(actions.delay_answer, ms=delay_ms)
        return self._add(f"response delayed by {delay_ms} ms", action, api, filters)

    def never_answer(self, api: str, **filters: object) -> F_co:
        """Neither handle the request nor respond to it. The connection stays open."""
        return self._add("never answered", actions.never_answer, api, filters)

    def drop(self, api: str, **filters: object) -> F_co:
        """Close the connection without handling the request. The client cannot know whether the
        request was applied."""
        return self._add("dropped, not applied", actions.drop, api, filters)

    def lose_answer(self, api: str, **filters: object) -> F_co:
        """Handle the request, and close the connection instead of responding. The client cannot
        know whether the request was applied."""
        return self._add("applied, response lost", actions.lose_answer, api, filters)

    def apply_late(self, api: str, *, seconds: float = 0, ms: int = 0, **filters: object) -> F_co:
        """Close the connection now, and handle the request after this time. The client cannot know
        that the request will be applied."""
        delay_ms = _total_ms(seconds, ms)
        action = partial(actions.apply_late, ms=delay_ms)
        return self._add(f"dropped, applied {delay_ms} ms later", action, api, filters)

    def close_mid_frame(self, api: str, **filters: object) -> F_co:
        """Handle the request, send half of the response, and close the connection."""
        return self._add("closed after half of the response", actions.close_mid_frame, api, filters)

    def trickle(self, api: str, **filters: object) -> F_co:
        """Send the response, and all later responses on the connection, one byte at a time."""
        return self._add("response sent byte by byte", actions.trickle, api, filters)

    def corrupt(self, api: str, *, seed: int = 0, **filters: object) -> F_co:
        """Flip some bits of the response after its correlation id."""
        return self._add("response corrupted", partial(actions.corrupt, seed=seed), api, filters)

    def throttle(self, api: str, *, seconds: float = 0, ms: int = 0, **filters: object) -> F_co:
        """Handle the request, and respond with this throttle time. As when a quota is exceeded
        (KIP-219), the broker then stops reading from the connection for that long, in wall-clock
        time."""
        throttle_ms = _total_ms(seconds, ms)
        action = partial(actions.throttle, ms=throttle_ms)
        return self._add(f"throttled by {throttle_ms} ms", action, api, filters)

    # --- conditions: by default they apply to every request until they are removed, in addition to
    # other faults

    def latency(
        self,
        api: str | None = None,
        *,
        seconds: float = 0,
        ms: int = 0,
        jitter_ms: int = 0,
        seed: int = 0,
        **filters: object,
    ) -> F_co:
        """Delay each request by a wall-clock time, plus or minus up to `jitter_ms` at random
        (determined by the seed). Requests that a client sends without waiting for responses are
        delayed one after another."""
        latency_ms = _total_ms(seconds, ms)
        if not 0 <= jitter_ms <= latency_ms:
            raise ValueError(f"jitter_ms must be from 0 to {latency_ms}, not {jitter_ms}")
        jitter = f" ± {jitter_ms}" if jitter_ms else ""
        condition = network.Latency(latency_ms, jitter_ms, seed)
        return self._add_condition(f"latency of {latency_ms}{jitter} ms", condition, api, filters)

    def limit_bandwidth(
        self, api: str | None = None, *, bytes_per_second: int, **filters: object
    ) -> F_co:
        """Send at most this many bytes of responses per second of wall-clock time on each
        connection, once a matching request has arrived on it."""
        if bytes_per_second < 1:
            raise ValueError(f"bytes_per_second must be at least 1, not {bytes_per_second}")
        condition = network.Bandwidth(bytes_per_second)
        text = f"bandwidth of {bytes_per_second} bytes per second"
        return self._add_condition(text, condition, api, filters)

    def network_partition(self, *, client_id: str | None = None, node: int | None = None) -> F_co:
        """Withhold all data between a client and a node (None: all clients or nodes): requests, and
        responses to earlier requests. Connections stay open, and new connections are accepted. At
        the end of the partition, all withheld data arrives."""
        if client_id is None and node is None:
            raise ValueError("A network partition needs a client_id, a node, or both")
        condition = network.NetworkPartition()
        filters: dict[str, Any] = {"client_id": client_id, "node": node}
        return self._add_condition("network partition", condition, None, filters)

    def skew_clock(self, *, node: int, seconds: float = 0, ms: int = 0) -> F_co:
        """Set the clock of a node forward (negative: backward) relative to the other nodes. The
        clock sets and validates the timestamps of produced records (`message.timestamp.type`,
        `message.timestamp.before.max.ms`). Durations, such as session timeouts, are not affected.
        The fault fires on each Produce to the node."""
        skew_ms = round(seconds * 1000) + ms
        if not skew_ms:
            raise ValueError("skew_clock needs seconds or ms")
        condition = network.Skew(skew_ms)
        return self._add_condition(
            f"clock skew of {skew_ms} ms", condition, "Produce", {"node": node}
        )

    @property
    def all(self) -> list[F_co]:
        """All faults that are set."""
        return [each for each in self._set if not each.is_cancelled]

    @property
    def checked(self) -> list[F_co | DiskFault | MarkerHook]:
        """All request faults, disk faults and marker holds, each of which fails the test if it is
        unused."""
        return [*self.all, *self.disk.all, *self._host.marker_holds]

    def clear(self, but: Collection[Fault | DiskFault | MarkerHook] = ()) -> None:
        """Remove all request faults, disk faults and marker holds except those in `but`, whether or
        not they have fired."""
        removed = [each for each in self.checked if each not in but]

        def remove() -> None:
            for each in removed:
                each.remove()
            self._set = self.all

        if removed and self._host.is_started:
            self._host.call(remove)
        else:
            remove()

    def check(self, but: Collection[Fault | DiskFault | MarkerHook] = ()) -> None:
        """Remove all request and disk faults, and release all markers. Raise UnusedFault if a fault
        has fired fewer times than required, or a hold has not held back any markers. Faults and
        holds in `but` are neither checked nor removed. The plugin calls this at the end of a test,
        and `with Kafka()` on exit."""
        checked = [each for each in self.checked if each not in but]
        unused = [each.report() for each in checked if each.is_unused]
        self.clear(but)
        if unused:
            plural = "s" * (len(unused) > 1)
            raise UnusedFault("\n".join([f"unused fault{plural} at the end of the test", *unused]))

    # --- on the broker's loop

    def active(self) -> Iterator[str]:
        """Yield a sentence for each condition that is set, and for each disk fault that has fired
        and is not healed."""
        for each in self.all:
            if each.is_condition and each.is_active:
                yield f"A condition of this test applies: {each.effect}."
        for fault in self.disk.all:
            if fault.fired and not fault.is_healed:
                yield f"A disk fault of this test applies: {fault.description}."

    def wants(self, api: str) -> bool:
        """Whether a fault may apply to this API (Hook.wants)."""
        return any(fault.wants(api) for fault in self._set if not fault.is_condition)

    def intercept(self, request: InterceptedRequest) -> bool:
        faults = iter([each for each in self._set if not each.is_condition])
        for fault in faults:
            is_taken_over = fault.apply(request)
            if is_taken_over is not None:
                for later in faults:
                    later.skip(request.record, fault)
                return is_taken_over
        return False

    def _add_condition(
        self, description: str, condition: Condition, api: str | None, filters: dict[str, Any]
    ) -> F_co:
        return self._add(description, condition, api, {"times": None, **filters})

    def _add(
        self, description: str, action: Action, api: str | None, filters: dict[str, Any]
    ) -> F_co:
        name = None if api is None else find_api_name(api)
        fault: F_co = self._type(self._host, description, action, name, *_firing_rule(**filters))
        where = fault.where
        where.check(None if name is None else _api(name), list(self._host.broker.addresses))

        def add() -> None:
            self._set.append(fault)
            if isinstance(action, Condition):
                interception = self._host.interception
                interception.hooks.insert(0, fault)
                action.begin(interception.connections_of(where.client_id, where.node))

        self._host.call(add)
        return fault


def _firing_rule(
    *,
    times: int | None = 1,
    nth: int = 1,
    probability: float | None = None,
    seed: int = 0,
    **where: Any,
) -> tuple[RequestFilter, int | None, int, tuple[float, int] | None]:
    """Return the arguments of Fault that determine when it fires. Raises TypeError for an unknown
    argument, and ValueError for an invalid value."""
    unknown = where.keys() - RequestFilter.__dataclass_fields__.keys()
    if unknown:
        known = (*RequestFilter.__dataclass_fields__, "nth", "times", "probability", "seed")
        hint = did_you_mean(min(unknown), known) or f"; it has {', '.join(known)}"
        raise TypeError(f"A fault has no argument {min(unknown)}{hint}")
    if nth < 1 or (times is not None and times < 1):
        raise ValueError(f"nth and times must be at least 1, not nth={nth} and times={times}")
    if probability is not None and not 0 < probability <= 1:
        raise ValueError(f"probability must be above 0 and at most 1, not {probability}")
    return RequestFilter(**where), times, nth, None if probability is None else (probability, seed)


def _filters_of(api: Api) -> Iterator[str]:
    """Yield the filters that apply to requests of this API. (Each field exists in the oldest or the
    newest version.)"""
    yield from FILTERS_OF_ALL
    for version in (api.min_version, api.max_version):
        fields = _fields(request_schema(api.key, version))
        if fields.keys() & set(GROUP_FIELDS):
            yield "group"
        for parent in (fields, _item_fields(fields, "members")):
            if "member_id" in parent:
                yield "member"
            if "group_instance_id" in parent or "instance_id" in parent:
                yield "instance_id"
        if fields.keys() & set(GENERATION_FIELDS):
            yield "generation"
        if fields.keys() & set(TRANSACTION_FIELDS):
            yield "transactional_id"
        parents = (_item_fields(fields, name) for name in TOPIC_PARENTS)
        for parent in (fields, *parents):
            for name in parent.keys() & set(TOPIC_FIELDS):
                yield "topic"
                if _item_fields(parent, name).keys() & set(PARTITION_FIELDS):
                    yield "partition"


def _fields(schema: Schema) -> dict[str, Field]:
    return {field.name: field for field in schema.all_fields}


def _item_fields(fields: dict[str, Field], name: str) -> dict[str, Field]:
    """Return the fields of the items of an array; {} if it does not exist or has plain values."""
    field = fields.get(name)
    return {} if field is None or field.struct is None else _fields(field.struct)


def _total_ms(seconds: float, ms: int) -> int:
    total = round(seconds * 1000) + ms
    if total <= 0:
        raise ValueError(f"The delay must be positive, not {total} ms: use seconds=… or ms=…")
    return total


def _api(name: str) -> Api:
    return next(api for api in APIS if api.name == name)


def _find_error(error: object) -> ErrorCode:
    """Find an error by name or code."""
    names = [code.name for code in ErrorCode]
    if isinstance(error, int) and not isinstance(error, bool):
        if error not in list(ErrorCode):
            raise ValueError(f"Kafka has no error code {error}")
        return ErrorCode(error)
    if not isinstance(error, str):
        raise TypeError(f"error must be the name or the code of a Kafka error, not {error!r}")
    if error.lower() not in names:
        known = [each.upper() for each in names]
        raise ValueError(f"Kafka has no error {error!r}{did_you_mean(error.upper(), known)}")
    return ErrorCode[error.lower()]
