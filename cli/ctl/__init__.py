"""`kohort ctl`: the control API of a broker that runs with `--control-port`, as commands.

commands   the table of commands, and their arguments
client     sending the request of a command
"""
