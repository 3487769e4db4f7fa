"""What planted.py plants."""

from __future__ import annotations

from planted_storage_faults import STORAGE_FAULTS, Fault

FAULTS = (
    *STORAGE_FAULTS,
    Fault(
        "generation not raised",
        "coordinator/rebalance.py",
        "    group.generation = (group.generation + 1 + 2**31) % 2**32 - 2**31\n",
        "    group.generation = max(group.generation, 1)\n",
    ),
    Fault(
        "generation not checked in heartbeat",
        "coordinator/heartbeats.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Fault(
        "generation not checked in commit",
        "coordinator/commits.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Fault(
        "generation not checked in sync",
        "coordinator/syncing.py",
        "if command.generation_id != group.generation:",
        "if command.generation_id > group.generation:",
    ),
    Fault(
        "commit accepted in CompletingRebalance",
        "coordinator/commits.py",
        "    if group.state is COMPLETING:\n",
        "    if group.state is EMPTY:\n",
    ),
    Fault(
        "no sync deadline",
        "coordinator/rebalance.py",
        "    turn.arm(group.sync_timer, group.rebalance_timeout_ms)\n",
        "    turn.deadlines.cancel(group.sync_timer)\n",
    ),
    Fault(
        "session not prolonged by heartbeat",
        "coordinator/heartbeats.py",
        "    shard.deadlines.set(member.session, now + member.session_timeout_ms)\n",
        "    shard.deadlines.pending.get(member.session)\n",
    ),
    Fault(
        "reply before the records are written",
        "broker/runtime.py",
        "gathered.extend(replies)\n            if misread",
        "self._deliver(replies)\n            if misread",
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
        "        self._table.forget(record)\n",
        "        self._table.get(group_id, record.topic, record.partition)\n",
    ),
    Fault(
        "tombstone of a group ignored",
        "coordinator/coordinator.py",
        "        elif isinstance(record, GroupTombstone):\n            self._forget(",
        "        elif isinstance(record, GroupTombstone):\n            self._shard.groups.get(",
    ),
    Fault(
        "static member dropped at rebalance timeout",
        "coordinator/rebalance.py",
        "if m.join_ticket is None and not m.is_static]",
        "if m.join_ticket is None]",
    ),
    Fault(
        "fenced instance not noticed",
        "coordinator/fencing.py",
        "        if holder != member_id:\n",
        "        if holder == member_id + holder:\n",
    ),
    Fault(
        "pending member never expires",
        "coordinator/joining.py",
        '        turn.arm(DeadlineKey("session", group.group_id, member_id), '
        "command.session_timeout_ms)\n",
        "        group.pending_joins[member_id] = None\n",
    ),
    Fault(
        "leader gets no list of members",
        "coordinator/rebalance.py",
        "        everybody(group) if is_leader else (),\n",
        "        (),\n",
    ),
    Fault(
        "vote for what not all support",
        "coordinator/voting.py",
        "for name, count in group.protocol_counts.items() if count == everybody}",
        "for name, count in group.protocol_counts.items() if count <= everybody}",
    ),
    Fault(
        "initial delay not extended",
        "coordinator/rebalance.py",
        "if waited_ms is not None and group.member_added and left_ms:",
        "if waited_ms is not None and group.member_added and left_ms < 0:",
    ),
    Fault(
        "nothing written when a group becomes empty",
        "coordinator/rebalance.py",
        "        turn.move(group, EMPTY)\n        turn.propose(group)\n",
        "        turn.move(group, EMPTY)\n",
    ),
    Fault(
        "parked join of a lost partition not answered",
        "broker/led.py",
        "        self._deliver(lost.unload())\n\n    def _misread",
        "        lost.unload()\n\n    def _misread",
    ),
    Fault(
        "a node coordinates what another one leads",
        "broker/runtime.py",
        "if shard is None and not self._leads(partition):",
        "if shard is None and partition < 0:",
    ),
    Fault(
        "a moved partition is not let go",
        "broker/cluster.py",
        "            before.groups.resign(partition.index)\n",
        "            before.groups.load([partition.index])\n",
    ),
    Fault(
        "parked join of a resigned partition unanswered",
        "broker/led.py",
        "            self._deliver(shard.coordinator.unload())\n",
        "            shard.coordinator.unload()\n",
    ),
    Fault(
        "the next leader reads before the last one has written",
        "broker/loading.py",
        "        if self._store.is_pending(shard.log):\n",
        "        if self._store.is_pending(shard.log) and shard.failed_ms:\n",
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
        "        topic.lead(partition, leader_id, epoch)\n",
        "        topic.lead(partition, self.nodes.elected(partition.index), epoch)\n",
    ),
    Fault(
        "offsets expire that are still read",
        "coordinator/expiring.py",
        "if topic in rule.kept_topics or not has_expired(",
        "if topic in group_id or not has_expired(",
    ),
    Fault(
        "an empty group ages since its last commit",
        "coordinator/expiring.py",
        "        return _SINCE_COMMIT if since_ms == -1 else Rule(since_ms)\n",
        "        return _SINCE_COMMIT\n",
    ),
    Fault(
        "an expired group leaves no tombstone",
        "coordinator/expiring.py",
        "            records += [GroupTombstone(group_id)] if foreign is None"
        " else foreign.tombstones()\n",
        "            shard.groups.pop(group_id, None)\n",
    ),
    Fault(
        "an assignment that is too large opens no round",
        "coordinator/refusing.py",
        "        prepare(turn, group, Why(Cause.ASSIGNMENT_TOO_LARGE, reason))\n",
        "        assert reason\n",
    ),
    Fault(
        "a deleted topic leaves its offsets at other nodes",
        "broker/cluster.py",
        "        for node in self.nodes.values():\n            node.groups.topics_deleted(",
        "        for node in self.up[:1]:\n            node.groups.topics_deleted(",
    ),
    Fault(
        "Kafka: offsets of open transactions are told as stable",
        "coordinator/fetches.py",
        "if shard.foreign.pending and command.require_stable:",
        "if shard.foreign.pending and not command.require_stable:",
    ),
    Fault(
        "Kafka: leader epochs begin anew",
        "topics/kafka_import.py",
        "records.append(LeaderElected(name, id_, index, NO_LEADER, epoch))",
        "records.append(LeaderElected(name, id_, index, NO_LEADER, 0))",
    ),
    Fault(
        "Kafka: it trusts its own files after us",
        "topics/kafka_import.py",
        "if files.exists(folder / name)]\n    is_new",
        "if not files.exists(folder)]\n    is_new",
    ),
)
