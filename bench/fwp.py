"""Rates over the Faktory Work Protocol, every commit of ours synced, beside Faktory (which syncs nothing) in turns.

    python -m bench.fwp --loader ./fwpload                                              # ours alone
    python -m bench.fwp --loader ./fwpload --faktory ./faktory --test-load ./load       # beside Faktory 1.10

`--loader` names a program that is called as `fwpload -addr HOST:PORT -mode cycle|push|pushb -conns N -jobs N -batch N` and prints
`... N jobs/s ...`; `--test-load` names Faktory's own load tool (its `test/load`). CPU is the server's with its children's, Redis
among them, from /proc.
"""

import argparse
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import report
from bench.__main__ import WORK_DIR, positive
from bench.figures import ratio
from bench.servers import OURS, START_S, end, tree_cpu_s

WARM_JOBS = 2_000
LOAD_S = 300

LOADS = {
    "c1": ("PUSH + FETCH + ACK, 1 connection", ["-mode", "cycle", "-conns", "1"], 6_000),
    "c10": ("10 connections", ["-mode", "cycle", "-conns", "10"], 30_000),
    "c50": ("50 connections", ["-mode", "cycle", "-conns", "50"], 60_000),
    "c200": ("200 connections", ["-mode", "cycle", "-conns", "200"], 60_000),
    "push": ("PUSH, 50 connections", ["-mode", "push", "-conns", "50"], 150_000),
    "pushb": (
        "PUSHB of 1,000, 4 connections",
        ["-mode", "pushb", "-conns", "4", "-batch", "1000"],
        400_000,
    ),
}
"""Name -> what it is called in the table, the loader's arguments, and jobs."""

TEST_LOAD = "test-load"
TEST_LOAD_JOBS = 30_000


@dataclass(frozen=True)
class Measured:
    """One load against one server: jobs a second, and microseconds of the server's CPU for each."""

    rate: float
    cpu_us: float


class FwpServer:
    """A server that speaks the protocol, in a process of its own.

    Args:
        name: How the report calls it.
        command: Its command line, with `{port}` and `{root}` in it.
        root: Where its data go, and its home. Removed when it stops.

    Raises:
        RuntimeError: It did not listen in time.
    """

    def __init__(self, name: str, command: Sequence[str], root: Path) -> None:
        self.name, self._root = name, root
        root.mkdir(parents=True)
        self.port = _free_port()
        line = [word.format(port=self.port, root=root) for word in command]
        self._log = root / "log"
        with self._log.open("wb") as log:
            env = os.environ | {"HOME": str(root)}
            self.process = subprocess.Popen(line, stdout=log, stderr=log, env=env)
        try:
            self._await_port()
        except BaseException:
            self.stop()
            raise

    def _await_port(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"{self.name} did not listen: {self._log.read_text(errors='replace')[-500:]}")

    def stop(self) -> None:
        """End it, by force if it lingers, and remove its directory."""
        end(self.process, self._root)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def measure(server: FwpServer, line: list[str], jobs: int) -> Measured:
    """Run a loader against a server.

    Raises:
        RuntimeError: The loader failed, or printed no rate.
    """
    os.sync()  # lest one server's sync wait for another's data
    before = tree_cpu_s(server.process.pid)
    env = os.environ | {"FAKTORY_URL": f"tcp://127.0.0.1:{server.port}"}
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=LOAD_S, check=False)
    used_s = tree_cpu_s(server.process.pid) - before
    found = re.search(r"rate: ([\d.]+) jobs/s|([\d.]+) jobs/s", done.stdout)
    if done.returncode or found is None:
        raise RuntimeError(f"{line[0]} against {server.name}: {(done.stdout + done.stderr)[-300:]}")
    return Measured(float(found[1] or found[2]), used_s / jobs * 1e6)


def run(args: argparse.Namespace) -> dict[str, dict[str, Measured]]:
    """Measure each chosen load in turns, on servers that have just started; give the medians."""
    tables: dict[str, dict[str, Measured]] = {}
    for name in args.only:
        rounds: dict[str, list[Measured]] = {}
        for turn in range(args.rounds):
            order = [
                ("anew", [*args.anew, "--root-dir", "{root}/data", "--port", "0", "--fwp-port", "{port}"])
            ]
            if args.faktory:
                order.append(("faktory", [args.faktory, "-b", "127.0.0.1:{port}", "-w", "127.0.0.1:0"]))
            for server, command in order if turn % 2 == 0 else reversed(order):
                rounds.setdefault(server, []).append(_fresh(server, command, name, args))
                last = rounds[server][-1]
                print(
                    f"{name:10} {server:8} {last.rate:9,.0f}/s  {last.cpu_us:6.1f} us of CPU a job",
                    file=sys.stderr,
                )
        tables[name] = {
            server: Measured(median(one.rate for one in found), median(one.cpu_us for one in found))
            for server, found in rounds.items()
        }
    return tables


def _fresh(server: str, command: list[str], name: str, args: argparse.Namespace) -> Measured:
    """Start a server, warm it, and measure one load."""
    started = FwpServer(server, command, args.work_dir / f"fwp-{time.monotonic_ns()}")
    loader = [args.loader, "-addr", f"127.0.0.1:{started.port}"]
    try:
        measure(started, [*loader, "-mode", "cycle", "-conns", "10", "-jobs", str(WARM_JOBS)], WARM_JOBS)
        if name == TEST_LOAD:
            return measure(started, [args.test_load, str(TEST_LOAD_JOBS), "10"], TEST_LOAD_JOBS)
        _, words, jobs = LOADS[name]
        return measure(started, [*loader, *words, "-jobs", str(jobs)], jobs)
    finally:
        started.stop()


def table(found: dict[str, dict[str, Measured]]) -> str:
    """Write the figures in Markdown."""
    head = ["load", "Anew, jobs/s", "Faktory, jobs/s", "ratio", "CPU us/job, Anew / Faktory"]
    lines = []
    for name, rows in found.items():
        ours, theirs = rows["anew"], rows.get("faktory")
        lines.append(
            [
                f"`test/load` {TEST_LOAD_JOBS} 10" if name == TEST_LOAD else LOADS[name][0],
                f"{ours.rate:,.0f}",
                f"{theirs.rate:,.0f}" if theirs else "",
                ratio(ours.rate, theirs.rate if theirs else None),
                f"{ours.cpu_us:.0f} / {theirs.cpu_us:.0f}" if theirs else f"{ours.cpu_us:.0f}",
            ]
        )
    return report.markdown(head, lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fwp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loader", required=True, metavar="PROGRAM", help="what makes the load")
    parser.add_argument("--faktory", metavar="PROGRAM", help="Faktory, measured beside ours")
    parser.add_argument("--test-load", metavar="PROGRAM", help="Faktory's own load tool")
    parser.add_argument(
        "--anew", type=shlex.split, default=OURS, metavar="CMD", help="our server's command line"
    )
    parser.add_argument("--only", metavar="NAME,...", help=f"some of {', '.join([*LOADS, TEST_LOAD])}")
    parser.add_argument("--rounds", type=positive, default=3, metavar="N", help="take the medians of N (3)")
    parser.add_argument(
        "--work-dir", type=Path, default=WORK_DIR, metavar="DIR", help="where the data go; a real disk"
    )
    args = parser.parse_args(argv)
    every = [*LOADS, *([TEST_LOAD] if args.test_load else [])]
    args.only = args.only.split(",") if args.only else every
    if unknown := [name for name in args.only if name not in every]:
        parser.error(f"--only {unknown[0]}: expected some of {', '.join(every)}")
    args.work_dir.mkdir(parents=True, exist_ok=True)
    try:
        found = run(args)
    except (
        RuntimeError,
        OSError,
        subprocess.TimeoutExpired,
    ) as error:  # a program is not there, or does not end
        raise SystemExit(f"bench.fwp: {error}") from error
    print(f"{report.machine(args.work_dir)}\n\n{table(found)}")


if __name__ == "__main__":
    main()
