"""What was folded is in exactly one payload, whoever is killed meanwhile: the server, who evaluates, or who enqueues on a file."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anew import Anew

from .server import Server
from .wire import Client, Hangup

PRODUCERS = 4
KEYS = 3
MOST = 20
"""Numbers in one payload."""

FOLDS_BEFORE_A_KILL = 150


class Producers:
    """Send numbers, each once, to be folded together.

    Attributes:
        sent: All of them.
        answered: Those whose request was answered with success.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._numbers = itertools.count()
        self._enough = threading.Event()
        self._reached = threading.Event()
        self._lock = threading.Lock()
        self.sent: set[int] = set()
        self.answered: set[int] = set()

    @contextmanager
    def sending(self, folds: int) -> Iterator[None]:
        """Let them send until the end of the block, which begins when so many more have been answered."""
        self._enough.clear()
        self._reached.clear()
        target = len(self.answered) + folds
        threads = [threading.Thread(target=self._produce, args=(target,)) for _ in range(PRODUCERS)]
        for thread in threads:
            thread.start()
        assert self._reached.wait(60), f"{len(self.answered)} answered, {target} expected"
        yield
        self._enough.set()
        for thread in threads:
            thread.join()

    def _produce(self, target: int) -> None:
        try:
            with Client(self._server.address, timeout=20) as client:
                while not self._enough.is_set():
                    self._send(client, target)
        except (OSError, Hangup):  # the server was killed
            self._reached.set()

    def _send(self, client: Client, target: int) -> None:
        with self._lock:
            number = next(self._numbers)
            self.sent.add(number)
        batch = {
            "key": f"k{number % KEYS}",
            "when": f"($existing + $new) | length <= {MOST}",
            "fold": "$existing + $new",
        }
        job = {"type": "t", "queue": "q", "payload": [number], "batch": batch}
        reply = client.request("POST", "/jobs", job)
        assert reply.status in (200, 201), reply
        with self._lock:
            self.answered.add(number)
            if len(self.answered) >= target:
                self._reached.set()


def stored(client: Client) -> list[list[int]]:
    """All payloads."""
    found: list[list[int]] = []
    path = "/jobs?limit=2000"
    while path:
        page = json.loads(client.request("GET", path).body)
        found += [job["payload"] for job in page["jobs"]]
        path = page["pages"]["next"]
    return found


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("victim", ["server", "evaluators"])
def test_every_number_is_in_exactly_one_payload(tmp_path: Path, victim: str) -> None:
    with Server(tmp_path / "data", "--no-fwp") as server:
        producers = Producers(server)
        for _ in range(4):
            with producers.sending(FOLDS_BEFORE_A_KILL):
                if victim == "server":
                    server.kill()
                else:
                    for child in children_of(server.pid):
                        os.kill(child, signal.SIGKILL)
            if victim == "server":
                server.start()
        with Client(server.address, timeout=20) as client:
            payloads = stored(client)
        counted = Counter(itertools.chain.from_iterable(payloads))
        assert max(counted.values()) == 1
        assert producers.answered <= counted.keys() <= producers.sent
        assert max(map(len, payloads)) == MOST
        assert len(producers.answered) >= 4 * FOLDS_BEFORE_A_KILL


CALLS_BEFORE_A_KILL = 60

CALLER = """
import sys
from anew import Anew

app = Anew(sys.argv[1])


@app.task(name="join", merge={"ids": "append"})
def join(group: int, ids: list[str]) -> None: ...


number = 0
while True:
    one = f"{sys.argv[2]}-{number}"
    print("sent", one, flush=True)
    join.enqueue(number % 3, [one])
    print("answered", one, flush=True)
    number += 1
"""


def test_every_call_is_in_exactly_one_job_if_a_process_that_enqueues_is_killed(tmp_path: Path) -> None:
    """Two processes merge their calls on one file; one after the other is killed and replaced, one all the while goes on."""
    path = tmp_path / "jobs.db"

    def start(name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CALLER, str(path), name], stdout=subprocess.PIPE, text=True
        )

    said: dict[str, set[str]] = {"sent": set(), "answered": set()}

    def hear(caller: subprocess.Popen[str], calls: int | None = None) -> None:
        """Read so many answers, or all that is left."""
        assert caller.stdout is not None
        while (calls is None or calls > 0) and (line := caller.stdout.readline()):
            word, one = line.split()
            said[word].add(one)
            if calls is not None:
                calls -= word == "answered"

    def kill(caller: subprocess.Popen[str]) -> None:
        caller.kill()
        hear(caller)
        caller.communicate()

    steady = start("steady")
    for n in range(4):
        killed = start(f"killed{n}")
        hear(killed, CALLS_BEFORE_A_KILL)
        hear(steady, CALLS_BEFORE_A_KILL)
        kill(killed)
    kill(steady)
    joined: list[str] = []
    with Anew(path) as app:
        app.task(name="join")(lambda group, ids: joined.extend(ids))
        app.run_worker(burst=True)
    counted = Counter(joined)
    assert max(counted.values()) == 1
    assert said["answered"] <= counted.keys() <= said["sent"]
    assert len(said["answered"]) >= 8 * CALLS_BEFORE_A_KILL
