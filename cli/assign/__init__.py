"""`kohort assign`: compute and explain an assignment, without a group or a broker.

arguments   flags and their allowed combinations
command     from the flags to the result; JSON, CSV, --cases
cases       a case from JSON or flags: validation, limits, result
table       the result on a terminal
svg         the result as an SVG file
"""
