"""The Python way in, measured through its public names, beside other Python queues if they are installed somewhere.

    python -m bench.tasks
    python -m bench.tasks --peer huey=/path/to/venv/bin/python --rounds 3
    python -m bench.tasks --peer rq=PYTHON --peer celery=PYTHON --kill --json

NAME is huey, taskito, taskito-postgres, dramatiq, rq, celery, taskiq, procrastinate or pgqueuer, and PYTHON the
interpreter that has its packages. Each runs as its documents say: its normal call to enqueue, its own worker program
with one process and 8 threads where it has threads. Every commit is synced, of the peers too: Redis (`redis-server`
is needed) with `appendfsync always`, PostgreSQL (`postgres`) with its defaults; only taskito cannot on SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from bench.figures import ratio
from bench.services import Fresh, no_service, postgres, redis

HARNESS = Path(__file__).parent / "peers" / "harness.py"
LOADS = ("single", "concurrent", "processes", "bulk", "drain", "wake")
OURS = ("coroutines", "workers", "kill")
ALL = (*LOADS, *OURS, "imports")
TIMEOUT_S = 180

Service = Callable[[Path], AbstractContextManager[Fresh]]
PEERS: dict[str, tuple[str, Service]] = {
    "anew": ("anew_peer", no_service),
    "huey": ("huey_peer", no_service),
    "taskito": ("taskito_peer", no_service),
    "taskito-postgres": ("taskito_peer", postgres),
    "dramatiq": ("dramatiq_peer", redis),
    "rq": ("rq_peer", redis),
    "celery": ("celery_peer", redis),
    "taskiq": ("taskiq_peer", redis),
    "procrastinate": ("procrastinate_peer", postgres),
    "pgqueuer": ("pgqueuer_peer", postgres),
}
Figures = dict[str, float]


def measure(name: str, python: str, loads: tuple[str, ...], scale: float, folder: str | None) -> Figures:
    """All figures of one queue, each load on an empty store."""
    module, service = PEERS[name]
    figures: Figures = {}
    with tempfile.TemporaryDirectory(dir=folder) as place, service(made(Path(place) / "service")) as fresh:
        for load in loads:
            figures |= run(python, module, load, scale, made(Path(place) / load), fresh(load))
    return figures


def made(folder: Path) -> Path:
    """A folder that was not there."""
    folder.mkdir()
    return folder


def run(python: str, module: str, load: str, scale: float, folder: Path, url: str) -> Figures:
    """One load in a process of the queue's own interpreter."""
    own = os.environ.get("PYTHONPATH") if module == "anew_peer" else None
    found = subprocess.run(
        [python, str(HARNESS), module, load, str(scale)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env=os.environ
        | {"BENCH_FOLDER": str(folder), "BENCH_URL": url}
        | {"PYTHONPATH": os.pathsep.join(filter(None, (str(HARNESS.parent), own)))},
    )
    if found.returncode:
        raise SystemExit(f"{module}, {load}: {found.stderr[-2_000:]}")
    figures: Figures = json.loads(found.stdout.splitlines()[-1])
    return figures


def import_ms(code: str) -> float:
    """What an import costs a program, beside an empty one."""

    def once(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    loaded, empty = (median(once(code) for _ in range(7)) for code in (code, "pass"))
    return (loaded - empty) * 1_000


def medians(rounds: list[Figures]) -> Figures:
    """The median of each figure."""
    return {key: median(one[key] for one in rounds if key in one) for key in rounds[-1]}


def table(found: dict[str, Figures]) -> list[str]:
    """The lines to print: a figure a line, ours, then each peer's with ours / theirs in brackets."""
    ours = found["anew"]
    peers = [name for name in found if name != "anew"]
    lines = [f"{'':34}{'anew':>12}" + "".join(f"{name:>22}" for name in peers)]
    for key in dict.fromkeys(key for one in found.values() for key in one):
        cells = "".join(f"{cell(ours.get(key), found[name].get(key)):>22}" for name in peers)
        lines.append(f"{key:34}{number(ours.get(key)):>12}{cells}")
    return lines


def cell(ours: float | None, theirs: float | None) -> str:
    """A peer's figure with ours / theirs in brackets."""
    if theirs is None or ours is None or theirs == float("inf"):
        return number(theirs)
    return f"{number(theirs)} ({ratio(ours, theirs)})"


def number(value: float | None) -> str:
    """A figure with the digits that say something."""
    if value is None:
        return "-"
    if value == float("inf"):
        return "not in 90 s"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def named_peer(text: str) -> tuple[str, str]:
    """Read NAME=PYTHON."""
    name, equals, python = text.partition("=")
    if name not in PEERS or name == "anew":
        raise argparse.ArgumentTypeError(f"unknown peer {name!r}: {', '.join(PEERS)}")
    if not equals or not python:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PYTHON")
    return name, python


def named_loads(text: str) -> list[str]:
    """Read LOAD,LOAD."""
    loads = text.split(",")
    for load in loads:
        if load not in ALL:
            raise argparse.ArgumentTypeError(f"unknown load {load!r}: {', '.join(ALL)}")
    return loads


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    reading = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    reading.add_argument("--rounds", type=int, default=1, help="the median of so many [1]")
    reading.add_argument("--peer", action="append", default=[], type=named_peer, metavar="NAME=PYTHON")
    reading.add_argument("--kill", action="store_true", help="kill the peers' workers too: up to 90 s each")
    reading.add_argument("--only", type=named_loads, metavar="LOAD,...", help=f"of {', '.join(ALL)}")
    reading.add_argument("--scale", type=float, default=1.0, help="so many times the jobs [1]")
    reading.add_argument("--json", action="store_true", help="all figures of all rounds instead of the table")
    reading.add_argument(
        "--folder", help="where the files lie: a disk whose syncs are real [a temporary folder]"
    )
    return reading


def main(argv: list[str] | None = None) -> None:
    """Measure in turns, print medians."""
    given = parser().parse_args(argv)
    only = given.only or ALL
    pythons = {"anew": sys.executable, **dict(given.peer)}
    found: dict[str, list[Figures]] = {name: [] for name in pythons}
    for _ in range(given.rounds):
        for name, python in pythons.items():
            all_loads = LOADS + (OURS if name == "anew" else ("kill",) if given.kill else ())
            loads = tuple(load for load in all_loads if load in only)
            found[name].append(measure(name, python, loads, given.scale, given.folder))
    if "imports" in only:
        for code in ("import anew", "from anew import Anew"):
            found["anew"][-1][f"{code}, ms"] = import_ms(code)
    if given.json:
        print(json.dumps(found))
    else:
        print("\n".join(table({name: medians(rounds) for name, rounds in found.items()})), flush=True)


if __name__ == "__main__":
    main()
