"""What planted.py plants."""

from __future__ import annotations

from planted_storage_faults import STORAGE_FAULTS, Fault

FAULTS = (
    *STORAGE_FAULTS,
    Fault(
        "generation not raised",
        "coordinator/classic/rebalance.py",
        "    group.generation = (group.generation + 1 + 2**31) % 2**32 - 2**31\n",
        "    group.generation = max(group.generation, 1)\n",
    ),
    Fault(
        "generation not checked in heartbeat",
        "coordinator/classic/members.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Fault(
        "generation not checked in commit",
        "coordinator/offsets.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Fault(
        "generation not checked in sync",
        "coordinator/classic/rebalance.py",
        "if command.generation_id != group.generation:",
        "if command.generation_id > group.generation:",
    ),
    Fault(
        "commit accepted in CompletingRebalance",
        "coordinator/offsets.py",
        "    if group.state is COMPLETING:\n",
        "    if group.state is EMPTY:\n",
    ),
    Fault(
        "no sync deadline",
        "coordinator/classic/rebalance.py",
        "    decision.schedule(group.sync_timer, group.rebalance_timeout_ms)\n",
        "    decision.deadlines.cancel(group.sync_timer)\n",
    ),
    Fault(
        "session not prolonged by heartbeat",
        "coordinator/classic/members.py",
        "    partition.deadlines.set(member.session, now + member.session_timeout_ms)\n",
        "    partition.deadlines.pending.get(member.session)\n",
    ),
    Fault(
        "reply before the records are written",
        "broker/runtime.py",
        "            waiting.extend(replies)\n",
        "            self._deliver(replies)\n",
    ),
    Fault(
        "reader sees what is not yet durable",
        "broker/runtime.py",
        "        elif replies:\n",
        "        elif replies and self._deliver(replies):\n",
    ),
    Fault(
        "tombstone of an offset ignored",
        "coordinator/coordinator.py",
        "        offsets.remove(record)\n",
        "        offsets.get(group_id, record.topic, record.partition)\n",
    ),
    Fault(
        "tombstone of a group ignored",
        "coordinator/coordinator.py",
        "        elif isinstance(record, GroupTombstone):\n            self._remove_group(",
        "        elif isinstance(record, GroupTombstone):\n            self._partition.groups.get(",
    ),
    Fault(
        "static member dropped at rebalance timeout",
        "coordinator/classic/rebalance.py",
        "if m.join_ticket is None and not m.is_static]",
        "if m.join_ticket is None]",
    ),
    Fault(
        "fenced instance not noticed",
        "coordinator/classic/group.py",
        "            if holder != member_id:\n",
        "            if holder == member_id + holder:\n",
    ),
    Fault(
        "pending member never expires",
        "coordinator/classic/join.py",
        "        decision.schedule(\n"
        '            DeadlineKey("session", group.group_id, member_id), '
        "command.session_timeout_ms\n"
        "        )\n",
        "        group.pending_joins[member_id] = None\n",
    ),
    Fault(
        "leader gets no list of members",
        "coordinator/classic/rebalance.py",
        "            all_members(group) if is_leader else (),\n",
        "            (),\n",
    ),
    Fault(
        "vote for what not all support",
        "coordinator/classic/group.py",
        "for name, count in self.protocol_counts.items() if count == members}",
        "for name, count in self.protocol_counts.items() if count <= members}",
    ),
    Fault(
        "initial delay not extended",
        "coordinator/classic/rebalance.py",
        "if delay_ms is not None and group.member_added and left_ms:",
        "if delay_ms is not None and group.member_added and left_ms < 0:",
    ),
    Fault(
        "nothing written when a group becomes empty",
        "coordinator/classic/rebalance.py",
        "        decision.transition(group, EMPTY)\n        decision.write(group)\n",
        "        decision.transition(group, EMPTY)\n",
    ),
    Fault(
        "parked join of a lost partition not answered",
        "broker/runtime.py",
        "            self._loader.begin(context)\n"
        "        self._unload(context, lost)\n"
        "\n"
        "    def _invalidate",
        "            self._loader.begin(context)\n\n    def _invalidate",
    ),
    Fault(
        "a node coordinates what another one leads",
        "broker/runtime.py",
        "if context is None and not self._leads(partition):",
        "if context is None and partition < 0:",
    ),
    Fault(
        "a moved partition is not let go",
        "broker/cluster.py",
        "            old.coordinators.unload(partition.index)\n",
        "            old.coordinators.load([partition.index])\n",
    ),
    Fault(
        "parked join of a resigned partition unanswered",
        "broker/runtime.py",
        "            self._unload(context, context.coordinator)\n",
        "            context.coordinator.unload()\n",
    ),
    Fault(
        "the next leader reads before the last one has written",
        "broker/loader.py",
        "        self._store.on_durable(context.log, "
        "partial(self._begin_replay, context, is_requested))\n",
        "        self._begin_replay(context, is_requested, None)\n",
    ),
    Fault(
        "leader epoch not raised",
        "topics/registry.py",
        "        before_id, epoch = partition.leader_id, partition.leader_epoch + 1\n",
        "        before_id, epoch = partition.leader_id, max(partition.leader_epoch, 1)\n",
    ),
    Fault(
        "leaders forgotten at a restart",
        "topics/registry.py",
        "        topic.set_leader(partition, leader_id, epoch)\n",
        "        topic.set_leader(partition, self.nodes.elect(partition.index), epoch)\n",
    ),
    Fault(
        "offsets expire that are still read",
        "coordinator/offsets.py",
        "        if record.topic in expiration.subscribed_topics:\n",
        "        if record.topic in record.group_id:\n",
    ),
    Fault(
        "an empty group ages since its last commit",
        "coordinator/offsets.py",
        "        return _SINCE_COMMIT if since_ms == -1 else _Expiration(since_ms)\n",
        "        return _SINCE_COMMIT\n",
    ),
    Fault(
        "an expired group leaves no tombstone",
        "coordinator/offsets.py",
        "        records += [GroupTombstone(group_id)] if other is None else other.tombstones()\n"
        "        events.append(",
        "        partition.groups.pop(group_id, None)\n        events.append(",
    ),
    Fault(
        "an assignment that is too large opens no round",
        "coordinator/coordinator.py",
        "        prepare_rebalance("
        "decision, group, RebalanceReason(Cause.ASSIGNMENT_TOO_LARGE, reason))\n",
        "        assert reason\n",
    ),
    Fault(
        "a deleted topic leaves its offsets at other nodes",
        "broker/cluster.py",
        "        for node in self.nodes.values():\n            node.coordinators.topics_deleted(",
        "        for node in self.up[:1]:\n            node.coordinators.topics_deleted(",
    ),
    Fault(
        "Kafka: offsets of open transactions are told as stable",
        "coordinator/offsets.py",
        "if partition.other_groups.pending_offsets and command.require_stable:",
        "if partition.other_groups.pending_offsets and not command.require_stable:",
    ),
    Fault(
        "Kafka: leader epochs begin anew",
        "topics/kafka_import.py",
        "imported.append(LeaderRecord(name, id_, index, NO_LEADER, epoch))",
        "imported.append(LeaderRecord(name, id_, index, NO_LEADER, 0))",
    ),
    Fault(
        "Kafka: it trusts its own files after us",
        "topics/kafka_import.py",
        "if files.exists(folder / name)]\n    is_new",
        "if not files.exists(folder)]\n    is_new",
    ),
)
