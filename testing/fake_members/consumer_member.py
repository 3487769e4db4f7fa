"""A fake member of the consumer protocol (KIP-848), which joins, confirms and leaves by heartbeats.

Like the background thread of Java's consumer, but without delay, the member revokes partitions and
confirms the revocation as soon as a response requires it, unless it has stopped polling.
"""

import contextlib
import uuid
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from ...coordinator.consumer.group import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from ...protocol.errors import ErrorCode
from .client import ErrorResponse
from .member import HEARTBEATS_PER_SESSION, GroupMember
from .roles import Consumer

_HEARTBEAT = "ConsumerGroupHeartbeat"


class ConsumerMember(GroupMember):
    role: Consumer

    def _forget(self) -> None:
        super()._forget()
        self.member_id = str(uuid.uuid4())  # the client chooses it, once per process (KIP-1082)
        self._assigned: tuple[tuple[str, int], ...] = ()
        # Changes that the coordinator has not received yet.
        self._has_new_topics = False
        self._has_changed_partitions = False

    @property
    def is_steady(self) -> bool:
        is_pending = self._has_new_topics or self._has_changed_partitions
        return super().is_steady and not is_pending

    # --- called by the test

    def rejoin(self) -> None:
        """Send the changed subscription."""
        self._has_new_topics = True
        self.wake()

    async def leave(self, _reason: str | None) -> None:
        """Leave permanently. The protocol has no field for the reason."""
        await self._leave(LEAVE_EPOCH)

    async def close(self) -> None:
        """Leave permanently; a static member leaves temporarily."""
        is_static = self.identity.instance_id is not None
        await self._leave(LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH)

    async def _leave(self, epoch: int) -> None:
        self.suspend()
        if self.exists and self.generation > 0:
            instance_id = self.identity.instance_id
            with contextlib.suppress(ErrorResponse, OSError):  # recorded in `errors`
                await self.client.request_separately(
                    _HEARTBEAT,
                    member_id=self.member_id,
                    member_epoch=epoch,
                    instance_id=instance_id,
                    topic_partitions=None,
                )
        self.kill()

    # --- the member's task

    async def _step(self) -> None:
        self._reconcile()
        has_news = self._must_join or self._has_new_topics or self._has_changed_partitions
        if not (has_news and self._may_send) and not self._failures:
            await self._sleep()
            self._reconcile()
        if self._may_send:
            await self._send_heartbeat()

    @property
    def _may_send(self) -> bool:
        """A removed member sends nothing until it polls, because it gives up its lost partitions
        only then."""
        return self.is_polling or not self._must_join

    @property
    def _heartbeat_interval_ms(self) -> int:
        """Fake members react to events immediately, so they need heartbeats only for the session
        and for the assignment interval, which ends without an event."""
        config = self._broker().node.configs.consumer_group(self.identity.group_id)
        interval_ms = config.session_timeout_ms // HEARTBEATS_PER_SESSION
        return max(min(interval_ms, config.assignment_interval_ms or interval_ms), 1)

    def _reconcile(self) -> None:
        """Revoke and take over partitions, as a consumer does when it polls."""
        if self.is_polling and not self._must_join and self.role.owned != self._assigned:
            self.role.owned = self._assigned
            self._has_changed_partitions = True
            self._on_change()

    async def _send_heartbeat(self) -> None:
        is_join = self._must_join
        if is_join:
            self.role.revoke_all()
            self._assigned = ()
            self._on_change()
        fields: dict[str, Any] = {"topic_partitions": None}
        if is_join or self._has_new_topics:
            fields["subscribed_topic_names"] = self.role.topics
        if is_join:
            timeout = timedelta(milliseconds=self.identity.rebalance_timeout_ms)
            fields |= {"rebalance_timeout": timeout, "server_assignor": self.role.server_assignor}
        if is_join or self._has_changed_partitions:
            fields["topic_partitions"] = self._owned_by_id()
        self._must_join = self._has_new_topics = self._has_changed_partitions = False
        try:
            response = await self._request(
                _HEARTBEAT,
                member_epoch=JOIN_EPOCH if is_join else self.generation,
                instance_id=self.identity.instance_id,
                **fields,
            )
        except BaseException:
            self._must_join = is_join
            # The test may have changed the subscription meanwhile.
            self._has_new_topics |= "subscribed_topic_names" in fields
            self._has_changed_partitions = fields["topic_partitions"] is not None
            raise
        self.generation, self._is_removed = response.member_epoch, False
        if response.assignment is not None:
            self._assigned = self._names(response.assignment.topic_partitions)
        self._on_change()

    def _owned_by_id(self) -> tuple[SimpleNamespace, ...]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in self.role.owned:
            by_topic.setdefault(topic, []).append(index)
        topics = self._broker().node.topics
        found = ((topics.get(name), indexes) for name, indexes in by_topic.items())
        return tuple(
            SimpleNamespace(topic_id=topic.id, partitions=tuple(indexes))
            for topic, indexes in found
            if topic is not None
        )

    def _names(self, assigned: Any) -> tuple[tuple[str, int], ...]:
        topics = self._broker().node.topics
        found = ((topics.by_id(each.topic_id), each.partitions) for each in assigned)
        return tuple(
            sorted((topic.name, index) for topic, indexes in found if topic for index in indexes)
        )

    def _handle_error(self, response: ErrorResponse) -> None:
        """Handle errors like Java's ConsumerHeartbeatRequestManager: a fenced or unknown member
        gives up its partitions and rejoins with its member id."""
        if response.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
            self._must_join = True
        else:
            self.failure = response
