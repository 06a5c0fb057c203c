"""Published measurements against simulated ones.

- ``reference``: what was published, as tables, and the rules by which each row is simulated.
- ``claims``: rows and rules together; ``execute``: the studies that they need; ``judge``: published against simulated.
- ``show``: tables, plots, the page.
"""
