"""Explains in sentences why a test waits: `explain()`, and the messages of waits that time out.

explanation         what a group is waiting for
classic, consumer   the parts that depend on the group protocol
lag                 which records a group has not committed
transactions        what transactions are waiting for, and which consumers wait for them
hints               why a consumer got no records
conditions          what the test has stopped, broken or frozen
failed_connections  why clients could not connect
rejected_joins      why a client could not join
"""
