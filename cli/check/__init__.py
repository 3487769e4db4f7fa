"""`kohort check`: does a broker keep its promises under load?

arguments  flags
command    the run and its result
"""
