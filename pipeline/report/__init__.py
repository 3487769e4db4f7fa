"""The lake as one page of HTML: all groups, the worst first, and what happened to each.

page.py        the whole file, and how much of a large lake is in it. Start here.
overview.py    the table of groups, the storms
section.py     one group: its verdict, its figure, its tables
figure.py      lag, members and owners over one scale of time, rebalances through all of them
lag_panel.py, member_panel.py, owner_panel.py: its three parts;  sparkline.py: lag as one word
scale.py       where a time is drawn
markup.py      text as HTML, tables;  style.py: the style sheet;  script.py: what moves
"""
