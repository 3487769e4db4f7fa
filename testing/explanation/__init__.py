"""Why a test waits, in sentences: the messages of timed-out waits, and `explain()`.

explanation         what a group is waiting for;  classic, consumer: by group protocol
transactions        what transactions are waiting for, and who waits for them
hints               why a consumer got no records
failed_connections  why clients could not connect
rejected_joins      why a client could not join
"""
