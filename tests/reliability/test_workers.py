"""Producers, workers and a server on one file, killed and stopped at random instants.

Nothing accepted is lost, nothing is stuck, what ended well in a worker that lived does not run again, and no job runs in two places
at once, a stopped worker's neither. Of jobs that a key bounds, no more run at one time.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from anew import Anew

from .test_processes import until
from .working import BOUND, key_of

KILLS = 600 if os.environ.get("ANEW_NIGHTLY") else 60
STEP_S = 0.2
ROLES = ["produce", "produce", "work", "work", "work", "serve"]


class Run(NamedTuple):
    """One run of one job; `end` is when it ended, or its worker was killed; `whole`: it had ended before that."""

    pid: int
    begin: int
    end: int
    whole: bool


class Site:
    """The processes of one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self.running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.killed_at: dict[int, int] = {}
        self._started = 0

    def start(self, role: str) -> None:
        """Start a process."""
        self._started += 1
        log = str(self.folder / f"log-{self._started}")
        if role == "serve":
            ports = ["--port", "0", "--no-fwp", "--log-level", "error"]
            words = ["-m", "anew", "serve", "--root-dir", str(self.data), *ports]
        else:
            words = ["-m", "tests.reliability.working", role, str(self.data), log]
        process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.running.append((role, process))

    def kill(self, at: int) -> str:
        """Kill one with kill -9; gives its role."""
        role, process = self.running.pop(at)
        process.kill()
        process.wait()
        self.killed_at[process.pid] = time.monotonic_ns()
        return role

    def kill_all(self) -> None:
        """Kill every one."""
        while self.running:
            self.kill(0)

    def lines(self) -> Iterator[list[str]]:
        """All events."""
        for log in self.folder.glob("log-*"):
            for line in log.read_text().splitlines():
                yield line.split()

    def runs(self) -> dict[str, list[Run]]:
        """The runs of each job, in order of their begin."""
        begun: dict[tuple[str, int], list[int]] = {}
        ended: dict[tuple[str, int], list[int]] = {}
        for event, one, *rest in self.lines():
            if event in "be":
                pid, at = map(int, rest)
                (begun if event == "b" else ended).setdefault((one, pid), []).append(at)
        found: dict[str, list[Run]] = {}
        for (one, pid), begins in begun.items():
            ends = ended.get((one, pid), [])
            for n, begin in enumerate(begins):
                whole = n < len(ends)
                end = ends[n] if whole else self.killed_at.get(pid, begin)
                found.setdefault(one, []).append(Run(pid, begin, end, whole))
        return {one: sorted(runs, key=lambda run: run.begin) for one, runs in found.items()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A directory whose processes are gone at the end."""
    one = Site(tmp_path)
    yield one
    one.kill_all()


def disturb(site: Site, chance: random.Random) -> None:
    """Kill processes, stop others for a while."""
    stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
    kills = 0
    while kills < KILLS:
        for role in ROLES:
            if [one for one, _ in site.running].count(role) < ROLES.count(role):
                site.start(role)
        time.sleep(chance.random() * 2 * STEP_S)  # the instant is what is tried here
        for until_s, process in [one for one in stopped if one[0] <= time.monotonic()]:
            process.send_signal(signal.SIGCONT)
            stopped.remove((until_s, process))
        if chance.random() < 0.25:
            _, process = chance.choice(site.running)
            process.send_signal(signal.SIGSTOP)
            stopped.append((time.monotonic() + chance.choice([0.1, 0.5, 2.5]), process))
            continue
        site.kill(chance.randrange(len(site.running)))
        kills += 1
    for _, process in stopped:
        process.send_signal(signal.SIGCONT)


def examine(site: Site) -> subprocess.CompletedProcess[str]:
    """Have the store examined."""
    words = [sys.executable, "-m", "anew", "doctor", "--root-dir", str(site.data)]
    return subprocess.run(words, capture_output=True, text=True)


def test_kills_and_stops_of_any_process_at_any_instant(site: Site) -> None:
    disturb(site, random.Random(KILLS))
    site.kill_all()
    app = Anew(site.data)

    def all_done() -> bool:
        site.start("drain")
        role, process = site.running.pop()
        assert process.wait(60) == 0, role
        return not any(app.counts()[state] for state in ("scheduled", "retrying", "ready", "in_flight"))

    def sound() -> bool:
        app.counts()  # whoever uses the file clears away what the dead have left, once a second
        return examine(site).returncode == 0

    until(all_done, within_s=90)
    counts = app.counts()
    until(sound, within_s=30)
    app.close()
    enqueued = {one for event, one, *_ in site.lines() if event == "E"}
    runs = site.runs()
    whole = {one for one, found in runs.items() if any(run.whole for run in found)}
    # A job that was at work in three kills in a row is dead as poison, and still there.
    assert len(enqueued - whole) <= counts["dead"], "an accepted job is lost"
    for one, found in runs.items():
        for run, after in pairwise(found):
            assert after.begin >= run.end, f"job {one} ran in two places at once: {found}"
            assert run.pid in site.killed_at, (
                f"job {one} ran again though no worker of it was killed: {found}"
            )
    keyed = ((key_of(one), run) for one, found in runs.items() for run in found)
    assert max(most_at_once((key, run) for key, run in keyed if key).values()) == BOUND
    examined = examine(site)
    assert examined.returncode == 0, examined.stdout
    assert len(enqueued) > 2 * KILLS


def most_at_once(runs: Iterable[tuple[str, Run]]) -> dict[str, int]:
    """Count by key how many runs there were at one time at most."""
    turns: dict[str, list[tuple[int, int]]] = {}
    for key, run in runs:
        turns.setdefault(key, []).extend([(run.begin, 1), (run.end, -1)])
    return {key: max(accumulate(step for _, step in sorted(found))) for key, found in turns.items()}
