"""The command line against a server: told by a variable where that is, given its input, read by what it prints.

`anew` runs it in this process: `anew.cli.root.run` is all that a process of its own calls, a quarter of a second later.
`anew_process` is for what starts programs, or opens ``/dev/stdin``: these look past Python's streams.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

from anew.cli.root import run

from .server import START_TIMEOUT_S, environment
from .wire import Address


def url_of(address: Address) -> str:
    """The server's address as ``--url`` takes it."""
    return f"http://{address[0]}:{address[1]}"


def anew(address: Address, *words: str, stdin: str | None = None, **variables: str) -> CompletedProcess[str]:
    """Run ``anew`` to its end.

    Args:
        address: The server it speaks to.
        words: Subcommand and arguments.
        stdin: What it may read; None gives it nothing.
        variables: Further environment.
    """
    given, out, err = _stream(stdin or ""), _stream(), _stream()
    with (
        mock.patch.dict(os.environ, _environment(address, variables), clear=True),
        mock.patch.multiple(sys, stdin=given, stdout=out, stderr=err),
    ):
        try:
            code = run(words)
        except SystemExit as ended:  # as `anew.cli.main` passes it on
            code = int(ended.code or 0)
    return CompletedProcess(words, code, _text(out), _text(err))


def anew_process(
    address: Address, *words: str, stdin: str | None = None, **variables: str
) -> CompletedProcess[str]:
    """Run ``anew`` to its end as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "anew", *words],
        input=stdin or "",
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        env=_environment(address, variables),
        check=False,
    )


def _environment(address: Address, variables: dict[str, str]) -> dict[str, str]:
    return environment() | {"ANEW_URL": url_of(address)} | variables


def _stream(text: str = "") -> io.TextIOWrapper:
    # A StringIO has neither an encoding nor the bytes below its text.
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="")


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def anew_json(address: Address, *words: str, **options: Any) -> Any:
    """Run ``anew ... --json``, insist that it succeeds, and give its answer."""
    done = anew(address, *words, "--json", **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)
