"""`kohort …`: flags in Kafka's shape, one sentence per error, exit code 2 for what users can mend.

main.py     the commands and their flags; imports a command when it is called
serve.py    `kohort serve`
control.py  `kohort serve --control-port`
health.py   `kohort health`
groups/     `kohort groups`
assign/     `kohort assign`
log/        `kohort log`
test/       `kohort ctl`
pipeline/   `kohort pipeline` and those who read its lake
noticing.py to wait for what a signal's handler sets
logs.py     log lines in Kafka's shape, or JSON
memory.py   what the C library may keep of freed memory
errors.py   the sentence and the exit code
"""
