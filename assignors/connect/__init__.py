"""How Kafka Connect's leader places connectors and tasks: incremental cooperative rebalancing.

    model        the words: a piece of work, a round, what a leader remembers
    assignor     one round: what is revoked, held back, given (KIP-415)
    balancing    which workers have too much, and who is given more
    protocol     what workers and their leader say, in Kafka's bytes
    leading      from what the workers say to what each is answered

Two ideas set it apart from the consumers' strategies: work of a worker that went away is held
back for a while, in case it returns, and the leader remembers from round to round.
"""
