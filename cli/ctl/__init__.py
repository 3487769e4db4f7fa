"""`kohort ctl`: the control API of a broker started with `--control-port`, as commands.

commands   the table of commands, and their arguments
client     sending the request of a command
"""
