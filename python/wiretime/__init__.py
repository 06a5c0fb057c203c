"""Wiretime: a full-system simulator for host networking; from Python see ``wiretime.api``, whose names are here too."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiretime.api import Machine, Run, Study, machine, msb, open_study, run, sweep

__version__ = "0.1.0"
__all__ = ["Machine", "Run", "Study", "__version__", "machine", "msb", "open_study", "run", "sweep"]


def __getattr__(name: str) -> Any:
    """Load the interface when it is first used: the command line mostly does without."""
    if name not in __all__:
        raise AttributeError(f"module 'wiretime' has no attribute {name!r}")
    from wiretime import api

    return getattr(api, name)
