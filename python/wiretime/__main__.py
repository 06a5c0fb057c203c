"""Entry point: errors become one line and an exit status."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

from wiretime.errors import BuildError, GuestError, WiretimeError

INTERRUPTED = 130
# Of a disk that takes nothing more, or nothing of this user: said in one line wherever it comes up.
DISK = (
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP,
)  # fmt: skip


def main() -> None:
    """Run the command line."""
    # A closed terminal or a kill ends the run as Ctrl-C does: through the clean-up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(128 + signal.SIGHUP))
    try:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None:  # closed by whoever started this
                setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
            else:
                # A locale without curves and dashes gets question marks.
                stream.reconfigure(errors="replace")
        from wiretime.cli import app

        app(prog_name="wiretime")
    except GuestError as e:
        if e.console:
            print(e.console, file=sys.stderr)
        print(f"wiretime: {e}", file=sys.stderr)
        sys.exit(e.status)
    except WiretimeError as e:
        if isinstance(e, BuildError) and e.output:
            print(e.output.rstrip(), file=sys.stderr)
        print(f"wiretime: {e}", file=sys.stderr)
        sys.exit(e.status)
    except OSError as e:
        if e.errno not in DISK:
            raise
        print(f"wiretime: {e.filename or 'a file'}: {e.strerror}", file=sys.stderr)
        sys.exit(WiretimeError.status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
