"""Producers, workers and a server on one file, killed and stopped at random instants.

Nothing accepted is lost, nothing is stuck, what ended well in a worker that lived does not run again, and no job runs in two places
at once, a stopped worker's neither. Of jobs that a key bounds, no more run at one time.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from anew import Anew
from tests.waiting import until

from .working import BOUND, key_of

KILLS = 600 if os.environ.get("ANEW_NIGHTLY") else 60
STEP_S, REMOTE_STEP_S = 0.2, 0.6
"""Between two kills; a server and those that connect to it need longer to begin."""
NOTICED_NS = 3_000_000_000
"""A worker may begin a job of a server that has died, until it notices: at once, or when it is no longer stopped itself."""
ROLES = ["produce", "produce", "work", "work", "work", "serve"]
REMOTE_KILLS = 200 if os.environ.get("ANEW_NIGHTLY") else 16
REMOTE_ROLES = ["http produce", "http produce", "http work", "http work", "work", "serve"]


class Run(NamedTuple):
    """One run of one job; `end` is when it ended, or its worker was killed; `whole`: it had ended before that."""

    pid: int
    begin: int
    end: int
    whole: bool


def free_port() -> int:
    """Give a port that no connection gets by itself while no server listens there: one below those that systems give out."""
    for port in random.Random(os.getpid()).sample(range(20_000, 32_000), 100):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Site:
    """The processes of one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self.running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.killed_at: dict[int, int] = {}
        self.server_killed: list[tuple[int, int]] = []
        self.history: list[tuple[int, str, int]] = []
        self._port = free_port()
        self._started = 0

    def start(self, role: str) -> None:
        """Start a process."""
        self._started += 1
        log = str(self.folder / f"log-{self._started}")
        if role == "serve":
            ports = ["--port", str(self._port), "--no-fwp", "--no-admin", "--log-level", "error"]
            words = ["-m", "anew", "serve", "--root-dir", str(self.data), *ports]
        else:
            *over, verb = role.split()
            store = f"http://127.0.0.1:{self._port}" if over else str(self.data)
            words = ["-m", "tests.reliability.working", verb, store, log]
        process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.running.append((role, process))
        self.history.append((time.monotonic_ns(), f"start {role}", process.pid))

    def kill(self, at: int) -> str:
        """Kill one with kill -9; gives its role."""
        role, process = self.running.pop(at)
        # Others may see its end before this process runs on.
        self.killed_at[process.pid] = time.monotonic_ns()
        self.history.append((self.killed_at[process.pid], f"kill {role}", process.pid))
        process.kill()
        process.wait()
        if role == "serve":
            self.server_killed.append((self.killed_at[process.pid], time.monotonic_ns()))
        return role

    def between(self, low: int, high: int) -> list[tuple[float, str, int]]:
        """Tell what was done to processes between two instants, in seconds after the first."""
        return [((at - low) / 1e9, *what) for at, *what in self.history if low <= at <= high]

    def kill_all(self) -> None:
        """Kill every one."""
        while self.running:
            self.kill(0)

    def lines(self) -> Iterator[list[str]]:
        """All events."""
        for log in self.folder.glob("log-*"):
            for line in log.read_text().splitlines():
                yield line.split()

    def enqueued(self) -> set[str]:
        """The jobs that were accepted."""
        return {one for event, one, *_ in self.lines() if event == "E"}

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


def disturb(
    site: Site, chance: random.Random, kills: int, least: int, roles: Sequence[str], step_s: float
) -> None:
    """Kill processes, stop others for a while; go on until there have been so many kills and more than so many jobs."""
    stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
    killed = 0
    while killed < kills or len(site.enqueued()) <= least:
        assert killed < 10 * kills, "nothing is enqueued"
        for role in roles:
            if [one for one, _ in site.running].count(role) < roles.count(role):
                site.start(role)
        time.sleep(chance.random() * 2 * step_s)  # the instant is what is tried here
        for until_s, process in [one for one in stopped if one[0] <= time.monotonic()]:
            process.send_signal(signal.SIGCONT)
            site.history.append((time.monotonic_ns(), "go on", process.pid))
            stopped.remove((until_s, process))
        if chance.random() < 0.25:
            role, process = chance.choice(site.running)
            site.history.append((time.monotonic_ns(), f"stop {role}", process.pid))
            process.send_signal(signal.SIGSTOP)
            stopped.append((time.monotonic() + chance.choice([0.1, 0.5, 2.5]), process))
            continue
        site.kill(chance.randrange(len(site.running)))
        killed += 1
    for _, process in stopped:
        process.send_signal(signal.SIGCONT)


def examine(site: Site) -> subprocess.CompletedProcess[str]:
    """Have the store examined."""
    words = [sys.executable, "-m", "anew", "doctor", "--root-dir", str(site.data)]
    return subprocess.run(words, capture_output=True, text=True)


def settle(site: Site) -> int:
    """Have what is left done; gives how many jobs are dead."""
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
    examined = examine(site)
    assert examined.returncode == 0, examined.stdout
    return counts["dead"]


def check_nothing_is_lost(site: Site, dead: int) -> None:
    """Every job that was accepted has run to its end."""
    whole = {one for one, found in site.runs().items() if any(run.whole for run in found)}
    # A job that was at work in three kills in a row is dead as poison, and still there.
    assert len(site.enqueued() - whole) <= dead, "an accepted job is lost"


def test_kills_and_stops_of_any_process_at_any_instant(site: Site) -> None:
    disturb(site, random.Random(KILLS), KILLS, 2 * KILLS, ROLES, STEP_S)
    check_nothing_is_lost(site, settle(site))
    for one, found in site.runs().items():
        for run, after in pairwise(found):
            assert after.begin >= run.end, f"job {one} ran in two places at once: {found}"
            assert run.pid in site.killed_at, (
                f"job {one} ran again though no worker of it was killed: {found}"
            )
    keyed = ((key_of(one), run) for one, found in site.runs().items() for run in found)
    assert max(most_at_once((key, run) for key, run in keyed if key).values()) == BOUND


def most_at_once(runs: Iterable[tuple[str, Run]]) -> dict[str, int]:
    """Count by key how many runs there were at one time at most."""
    turns: dict[str, list[tuple[int, int]]] = {}
    for key, run in runs:
        turns.setdefault(key, []).extend([(run.begin, 1), (run.end, -1)])
    return {key: max(accumulate(step for _, step in sorted(found))) for key, found in turns.items()}


def test_kills_and_stops_of_workers_over_http_and_of_their_server(site: Site) -> None:
    """A job is given to a second worker only when its first one, or the server that knew of it, was killed."""
    disturb(site, random.Random(REMOTE_KILLS), REMOTE_KILLS, REMOTE_KILLS, REMOTE_ROLES, REMOTE_STEP_S)
    check_nothing_is_lost(site, settle(site))
    for one, found in site.runs().items():
        for run, after in pairwise(found):
            killed = site.killed_at.get(run.pid, after.begin + 1) <= after.begin
            cut_off = any(
                run.begin - NOTICED_NS <= dead and at <= after.begin for at, dead in site.server_killed
            )
            assert killed or cut_off, (
                f"job {one} ran again though nobody was killed: {found}\n"
                f"{site.between(run.begin - NOTICED_NS, after.end)}"
            )
