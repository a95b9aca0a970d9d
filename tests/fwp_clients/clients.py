"""The clients as programs of one shape: ``PROGRAM VERB URL JSON``, answers as JSON lines on stdout.

========  ==================================================  =================================================
verb      argument                                            answer
========  ==================================================  =================================================
push      a job                                               ``{"pushed": true}``
bulk      a list of jobs                                      ``{"refused": {jid: reason}}``
info      null                                                ``{"info": {...}}``
mutate    ``{"cmd", "target", "filter"}``                     ``{"mutated": true}``
work      ``{"queue", "wid"}``; runs until it is told to      ``{"ran": args}`` for each job of type `echo`,
          stop, one job at a time                             ``{"failing": args}`` for each of type `fail`,
                                                              ``{"quiet": true}`` when the server makes it quiet
========  ==================================================  =================================================

A job of type `fail` fails with the message `boom`. What Node and Go need is installed or built once and kept beside
this Python; where that cannot be done the client's tests are skipped, with the reason.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 30.0
INSTALL_TIMEOUT_S = 300.0


def _python(name: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        pytest.importorskip(name)
        return [sys.executable, str(PROGRAMS / f"pypi_{name}.py")]

    return command


def _node() -> list[str]:
    place = _made_once("node", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    return ["node", str(place / "client.js")]


def _go() -> list[str]:
    return [str(_made_once("go", ["go", "build", "-o", "client", "."]) / "client")]


def _made_once(language: str, command: list[str]) -> Path:
    """A copy of a program's folder in which ``command`` has been run; skips the test if it cannot be."""
    for tool in (language, command[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here")
    source = PROGRAMS / language
    state = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(source.iterdir()))).hexdigest()[:12]
    place = Path(sys.prefix) / "fwp-clients" / f"{language}-{state}"
    if not place.exists():
        _make(source, place, command)
    return place


def _make(source: Path, place: Path, command: list[str]) -> None:
    place.parent.mkdir(exist_ok=True)
    trial = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        shutil.copytree(source, trial, dirs_exist_ok=True)
        made = subprocess.run(
            command, cwd=trial, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
        if made.returncode:
            pytest.skip(f"{' '.join(command)} fails: {made.stderr.strip()[-300:]}")
        # Another process of the same test run may have been faster.
        if not place.exists():
            trial.rename(place)
    finally:
        shutil.rmtree(trial, ignore_errors=True)


class Working:
    """A worker process; its words are read as they come.

    Args:
        command: The program and its arguments.
    """

    def __init__(self, command: list[str]) -> None:
        self._words: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._noise = tempfile.TemporaryFile("w+")  # noqa: SIM115 - close() closes it
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._noise, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # The Go worker logs on stdout too.
                self._words.put(json.loads(line))
        self._words.put(None)

    def hear(self) -> dict[str, Any]:
        """The next thing it says."""
        try:
            words = self._words.get(timeout=TIMEOUT_S)
        except queue.Empty:
            words = None
        assert words is not None, f"the worker says no more; its errors:\n{self._errors()}"
        return words

    def stop(self) -> list[dict[str, Any]]:
        """Send SIGTERM, await its end, and return what it still said."""
        self._process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> list[dict[str, Any]]:
        """Await its end, and return what it still said. Its exit status is its own affair."""
        self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        rest = []
        while (words := self._words.get_nowait()) is not None:
            rest.append(words)
        return rest

    def close(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._noise.close()

    def _errors(self) -> str:
        self._noise.seek(0)
        return self._noise.read()[-3000:]


class ClientProgram:
    """One client.

    Args:
        name: What it is called in the tests' names.
        command: Gives the words that run it; skips the test where it cannot be run.
        lacks: Verbs that the client does not have.
    """

    def __init__(
        self, name: str, command: Callable[[], list[str]], lacks: frozenset[str] = frozenset()
    ) -> None:
        self.name = name
        self.lacks = lacks
        self._command = functools.cache(command)

    def words(self, verb: str, url: str, argument: Any) -> list[str]:
        """The command line of one verb."""
        return [*self._command(), verb, url, json.dumps(argument)]

    def run(self, verb: str, url: str, argument: Any = None) -> dict[str, Any]:
        """Run a verb that ends by itself and return its answer."""
        done = subprocess.run(
            self.words(verb, url, argument),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=os.environ | {"FAKTORY_URL": url},
            check=False,
        )
        assert done.returncode == 0, f"{self.name} {verb} fails:\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


CLIENTS = (
    ClientProgram("faktory", _python("faktory"), lacks=frozenset({"bulk", "info", "mutate"})),
    ClientProgram("pyfaktory", _python("pyfaktory")),
    ClientProgram("node", _node),
    ClientProgram("go", _go),
)
