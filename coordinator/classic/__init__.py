"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup. Start with states.py.

states      the states, their transitions, and the response to every request
group       a group and its members, and their record
join        JoinGroup: new, rejoining and static members
rebalance   the join phase and the sync phase; SyncGroup
members     Heartbeat, session expiration, LeaveGroup
"""
