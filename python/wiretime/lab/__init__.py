"""The lab: a page in the browser that makes experiments, runs them, and shows and explains what came of them.

- ``form``: what a user picks, as a study's plan; ``work``: experiments under way, each point in a process of its own.
- ``charts``: what runs and searches leave, as options of charts; ``page``, ``details``, ``comparison``: the page.

An experiment is a study, so that what the page shows, the command line does, too, and finds in the same folder.
"""
