"""What there is to read: the offsets log in a folder or behind a broker, as Arrow batches.

source.py    what a source can do, and which one options name. Start here
folder.py    an offsets log in a folder
decoding.py  batches as Arrow;  records.py: a record as a row
"""
