"""Consumer groups (KIP-848): the coordinator computes a target assignment, towards which each
member reconciles independently of the others.

group             ConsumerGroup and its members: their state, and how records change it
heartbeat         ConsumerGroupHeartbeat: start reading here
subscriptions     what changes the group epoch: subscriptions, regular expressions, topics
target            the target assignment, by a server-side assignor
reconcile         the next step of one member towards its target assignment
members           the lookup of members, their assignment and their deadlines
leaving           how members leave and are fenced
migration         from a classic group to a consumer group, and back
classic_members   members of the classic protocol in a consumer group
"""
