"""`kohort assign`: compute and explain an assignment, without a group or a broker.

arguments   flags and their allowed combinations
command     the result of the flags as JSON or CSV; --cases
cases       a case from JSON or flags: validation, limits, result
table       the result on a terminal
svg         the result as an SVG file
"""
