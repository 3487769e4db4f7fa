"""Two strategies that Kafka does not have, as a user would write them.

    weighted   members that say how strong they are get shares to match
    in_rack    partitions stay in a rack that has a replica of them

Take them by their path, `kohort.assignors.examples.weighted:Weighted`, or as a beginning.
"""
