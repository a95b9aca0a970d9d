"""The command line: arguments in, one call, text out.

Exit codes: 0 done; 1 failure; 2 usage or a value that does not fit; 3 no server answered; 4 not found; 5 refused (conflict,
token, not in this build, unsafe bind); 130 and 143 after SIGINT and SIGTERM.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process and exit with its code."""
    # Inside, so that importing this package costs nothing.
    from anew.cli.root import run

    raise SystemExit(run())
