"""`kohort …`: one module or package per command.

main        commands, flags, exit codes
serve       `kohort serve`
control     `kohort serve --control-port`
health      `kohort health`
conformance `kohort conformance`
check       `kohort check`
groups/     `kohort groups`
acls/       `kohort acls`
transactions/  `kohort transactions`
assign/     `kohort assign`
log/        `kohort log`
pipeline/   `kohort pipeline`, and `why`, `timeline`, `lag`, `storms`, `report`
ctl/        `kohort ctl`

errors      exit codes, and errors as one line on standard error
logs        the log of `kohort serve`
imports     prevents the import of Hypothesis
output      tables, CSV, status lines, progress bars
signals     the signals that stop a broker, and waiting for them
"""
