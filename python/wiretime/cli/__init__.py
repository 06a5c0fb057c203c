"""The command line."""

# In the order of the help.
from wiretime.cli import run, search, model, study, lab, results, setup  # noqa: I001
from wiretime.cli.base import app

__all__ = ["app", "lab", "model", "results", "run", "search", "setup", "study"]
