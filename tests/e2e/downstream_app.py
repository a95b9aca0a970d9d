"""An application whose handlers ask a server that refuses them: ``python -m tests.e2e.downstream_app`` runs its jobs.

The file is that of ANEW_URL, the server that of SERVICE_URL.
"""

from __future__ import annotations

import os
from urllib.request import urlopen

from anew import Anew
from anew.tasks.downstream import Downstream

app = Anew()
SERVICE = Downstream("service", least=5, cooldown="1h", release=10)


def ask(path: str) -> None:
    """Ask the server."""
    with urlopen(os.environ["SERVICE_URL"] + path, timeout=10) as answer:
        answer.read()


@app.task(name="fetch", policy=["1h", "1h"])
def fetch(path: str) -> None:
    """In a thread."""
    ask(path)


@app.task(name="fetch_apart", policy=["1h", "1h"], process=True)
def fetch_apart(path: str) -> None:
    """In a process of its own."""
    ask(path)


@app.task(name="guarded", policy=[], downstream=SERVICE)
def guarded(path: str) -> None:
    """With a breaker."""
    ask(path)


if __name__ == "__main__":
    app.run_worker(burst=True, concurrency=1)
