"""`kohort report`: the lake as one HTML page.

page.py    the page: all groups, storms, a section for each of the worst groups. Start here.
figure.py  lag, members and owners on one time axis, with rebalances across them
panels.py  the three panels of a figure, and sparklines
markup.py  escaped text, tables;  page.css, page.js: style sheet and script
"""
