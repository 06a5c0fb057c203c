"""The command line."""

# In the order of the help.
from wiretime.cli import run, search, model, study, results, setup  # noqa: I001
from wiretime.cli.base import app

__all__ = ["app", "model", "results", "run", "search", "setup", "study"]
