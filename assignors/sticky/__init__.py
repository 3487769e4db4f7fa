"""Each member keeps what it had, as far as a balanced group allows (AbstractStickyAssignor).

    eager        `sticky`: all partitions change hands at once
    cooperative  `cooperative-sticky`: what changes hands waits until its owner has given it back

    user_data    what their members write into their subscriptions, and what is read there
    claims       who may keep what, when members disagree about who owns it
    round        claims, then the shares by the way that fits the subscriptions
    equal        the shares where all members want the same topics
    unequal      the shares where they do not
    exchanges    gives back what changed hands without need
    audiences    who of those that want a topic has least
    movements    which partition to move, so that none goes there and back
    near         which members and partitions are in one rack
    hash_order   the order in which Java walks over members

What is handed out depends on Java's hashes, which are the same everywhere, and on none of Python's.
"""
