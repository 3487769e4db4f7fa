"""Who gets which partition: pure functions from what a group's members want and own.

    model    the words: a member's subscription, the topics there are, an assignment

Nothing here reads a clock, a file or a socket, and nothing depends on hash order.
"""
