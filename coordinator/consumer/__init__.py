"""Consumer groups (KIP-848): the group assigns partitions itself, and members follow one by one.

group             ConsumerGroup and its members: the state, and how records change it
heartbeat         ConsumerGroupHeartbeat: start reading here
subscriptions     what changes the group epoch: subscriptions, regular expressions, topics
target            the target assignment, by a server-side assignor
reconcile         the next step of one member towards its target assignment
members           finding members, their assignment and their deadlines
leaving           leaving and being fenced
migration         classic group to consumer group, and back
control           test controls
classic_members   members of the classic protocol in a consumer group
describe          ConsumerGroupDescribe
"""
