"""Studies: many points, described as data, run on all cores or a cluster, kept as a table.

- ``plan``: what is varied and measured; ``metrics``: what a point yields.
- ``point``: one point, by the content of all that decides it; ``execute``: all of them.
- ``folder``: what is kept of them, and queries.
"""
