"""What a user sees when something is wrong: one line, and the exit status that goes with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

BAD_INPUT = 2
GUEST_FAILED = 1
# So many names are told beside the nearest one, and where none is near.
FEW, MANY = 16, 40


class WiretimeError(Exception):
    """An error with a message for the user. ``status`` is the exit status."""

    status = BAD_INPUT


class GuestError(WiretimeError):
    """The guest application failed; ``console`` is the end of what it printed."""

    status = GUEST_FAILED

    def __init__(self, message: str, console: str = "") -> None:
        super().__init__(message)
        self.console = console


class BuildError(WiretimeError):
    """A program cannot be built; ``output`` is what the compiler said."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def unknown(what: str, found: str, known: Iterable[str]) -> WiretimeError:
    """Return an error for a name that does not exist, with the nearest that does; where there are few, with all."""
    known = list(known)
    near = difflib.get_close_matches(found, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    if len(known) < (FEW if near else MANY):
        hint += f"{'' if near else ';'} known: {', '.join(known)}"
    return WiretimeError(f"unknown {what} {found!r}{hint}")
