"""The command line as its users run it: a process of its own, told where the server is by a variable."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .server import START_TIMEOUT_S, environment
from .wire import Address


def url_of(address: Address) -> str:
    """The server's address as ``--url`` takes it."""
    return f"http://{address[0]}:{address[1]}"


def anew(
    address: Address, *words: str, stdin: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``anew`` to its end.

    Args:
        address: The server it speaks to.
        words: Subcommand and arguments.
        stdin: What it may read; None gives it nothing.
        variables: Further environment.
    """
    return subprocess.run(
        [sys.executable, "-m", "anew", *words],
        input=stdin or "",
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=environment() | {"ANEW_URL": url_of(address)} | variables,
        check=False,
    )


def anew_json(address: Address, *words: str, **options: Any) -> Any:
    """Run ``anew ... --json``, insist that it succeeds, and give its answer."""
    done = anew(address, *words, "--json", **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)
