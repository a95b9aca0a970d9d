"""The command line: arguments in, one call, text out.

Exit codes: 0 done; 1 failure; 2 usage or a value that does not fit; 3 no server answered; 4 not found; 5 refused (conflict,
token, not in this build, unsafe bind), or a lint has findings; 129, 130 and 143 after SIGHUP, SIGINT and SIGTERM.
"""

from __future__ import annotations

import errno
import os
import sys

__all__ = ["main"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Run the command line of this process and exit with its code."""
    _open_what_is_closed()
    try:
        # Inside, so that importing this package costs nothing.
        from anew.cli.root import run

        raise SystemExit(run())
    except KeyboardInterrupt:
        # While something was imported: commands themselves are ended by `run`.
        raise SystemExit(130) from None
    except OSError as error:
        # Files that commands read and write are named by the commands themselves; what is left is the output.
        if error.filename is not None or error.errno not in _FULL:
            raise
        # What could not be written is still in the stream, which Python would try once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"Error: the output cannot be written ({error.strerror})", file=sys.stderr)
        raise SystemExit(1) from None


def _open_what_is_closed() -> None:
    """Give a process that was started without stdout or stderr (``>&-``) streams that lead nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 for the process's life
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 for the process's life
