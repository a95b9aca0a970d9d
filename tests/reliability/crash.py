"""Kills a server again and again under load, and counts what it lost.

    python -m tests.reliability.crash --kills 60 --seed 7

Sixteen producers and sixteen workers (`loader`) work against a real server process. It is killed with
SIGKILL, half of the times at a uniformly random moment, half right after or while something is being
committed or answered; now and then once more while it recovers. It is restarted on the same directory each
time, drained at the end, and the clients' history is judged by `checker`. Zero failures in n kills bound the
rate of failure at 3/n with 95 % confidence; that is what the report says, and no more.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .server import Server, server_command

AIMED = ("sent", "sent", "enqueue", "enqueue", "success", "failure", "delivery")
LOAD_S = (0.05, 0.5)
"""Shortest and longest time under load before a kill."""
RECOVERY_KILL_SHARE = 0.12
RESTART_GUESS_S = 0.3
LOG_LINES_SHOWN = 30
FLAGS = ("--global-in-flight-limit", "4096")


@dataclasses.dataclass
class Report:
    """The figures of one run. `verdict` is the checker's, as plain data."""

    seed: int
    command: str
    kills: int = 0
    recovery_kills: int = 0
    points: Counter[str] = dataclasses.field(default_factory=Counter)
    restarts_s: list[float] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    drained_s: float = 0.0
    events: int = 0
    deaths: list[str] = dataclasses.field(default_factory=list)
    verdict: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no rule was broken and the server never ended by itself."""
        return bool(self.verdict) and self.verdict["ok"] and not self.deaths

    def restart_s(self, share: float) -> float:
        """Give a quantile of the time from the start of the process to its first answer, in seconds."""
        ordered = sorted(self.restarts_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def as_json(self) -> dict[str, Any]:
        """Give every figure under a plain name."""
        verdict = {name: value for name, value in self.verdict.items() if name != "violations"}
        return {
            "seed": self.seed,
            "server": self.command,
            "kills": self.kills,
            "kills_during_recovery": self.recovery_kills,
            "kill_points": dict(self.points),
            "deaths": self.deaths,
            **verdict,
            "restart_s": {
                "p50": self.restart_s(0.5),
                "p99": self.restart_s(0.99),
                "max": max(self.restarts_s),
            },
            "failure_rate_below": 3 / self.kills,
            "events": self.events,
            "drained_s": self.drained_s,
            "seconds": self.seconds,
            "violations": self.verdict["violations"],
        }

    def __str__(self) -> str:
        v = self.verdict
        points = ", ".join(f"{point} {count}" for point, count in self.points.most_common())
        lines = [
            f"seed {self.seed}, server: {self.command}",
            f"kills                 {self.kills} ({points}; {self.recovery_kills} during recovery)",
            f"accepted              {v['accepted']} ({v['completed']} completed, {v['dead']} dead)",
            f"lost                  {v['lost']}",
            f"delivered after ack   {v['resurrected']}",
            f"stuck                 {v['stuck']}",
            f"in doubt              {v['in_doubt_present']} present, {v['in_doubt_absent']} absent",
            f"deliveries            {v['deliveries']}, of which again without a failure {v['redeliveries']}",
            f"restart to serving    p50 {self.restart_s(0.5):.3f} s, p99 {self.restart_s(0.99):.3f} s, "
            f"max {max(self.restarts_s):.3f} s",
            f"judged                {self.events} events; rules broken: {v['broken'] or 'none'}",
            f"took                  {self.seconds:.1f} s, of which draining {self.drained_s:.1f} s",
        ]
        if self.ok:
            bound = f"{300 / self.kills:.2g} %"
            lines.append(f"no failure in {self.kills} kills: below {bound} a kill with 95 % confidence")
        lines += [f"  the server ended by itself: {death}" for death in self.deaths]
        lines += [f"  rule {rule}, job {key}: {text}" for rule, key, text in v["violations"]]
        return "\n".join(lines)


class _LoaderProcess:
    """The clients' process, spoken to in lines of JSON."""

    def __init__(self, seed: int) -> None:
        package = __package__ or "reliability"
        home = Path(__file__).resolve().parents[package.count(".") + 1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{package}.loader", str(seed)],
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, **facts: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(facts) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line or "failed" in (facts := json.loads(line)):
            raise RuntimeError(f"the clients ended early: {line or self.process.wait(10)}")
        return facts  # type: ignore[no-any-return]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def run(
    kills: int,
    seed: int,
    root: Path,
    *,
    flags: Sequence[str] = FLAGS,
    command: Sequence[str] | None = None,
    load_s: tuple[float, float] = LOAD_S,
    beside: Callable[[], None] = lambda: None,
) -> Report:
    """Kill a server so many times under load, drain it and judge.

    Args:
        kills: How many times, kills during recovery included.
        seed: Steers the load and the choice of moments.
        root: An empty data directory.
        flags: Extra flags of the server.
        command: The server's command, where it is not the usual one.
        load_s: Shortest and longest time under load before a kill, seconds.
        beside: Called in each time under load; the server is started again when it has returned.

    Returns:
        The report; its `ok` says whether the server kept its promises.

    Raises:
        StartFailure: The server did not come back.
    """
    server = Server(root, *flags, command=command)
    report = Report(seed, " ".join(server.command))
    chance = random.Random(seed)
    loader = _LoaderProcess(seed)
    begun = time.monotonic()
    try:
        while report.kills < kills:
            _start(server, report)
            point = chance.choice(AIMED) if chance.random() < 0.5 else "uniform"
            loader.tell(**_whereabouts(server), point=point, after=chance.uniform(*load_s))
            beside()
            report.points[loader.hear()["killed"]] += 1
            server.kill()
            _note_death(server, report)
            report.kills += 1
            while report.kills < kills and chance.random() < RECOVERY_KILL_SHARE:
                _kill_recovering(server, report, chance)
        _start(server, report)
        loader.tell(**_whereabouts(server))
        result = loader.hear()
    except RuntimeError as error:
        error.add_note("\n".join(list(server.log)[-LOG_LINES_SHOWN:]))
        raise
    finally:
        loader.close()
        server.kill()
    report.verdict, report.events = result["verdict"], result["events"]
    report.drained_s, report.seconds = result["drained_s"], time.monotonic() - begun
    return report


def _start(server: Server, report: Report) -> None:
    begun = time.monotonic()
    server.start()
    report.restarts_s.append(time.monotonic() - begun)


def _note_death(server: Server, report: Report) -> None:
    """The signal should have found the process alive."""
    assert server.process is not None
    if server.process.returncode != -signal.SIGKILL:
        tail = "\n".join(list(server.log)[-LOG_LINES_SHOWN:])
        report.deaths.append(f"status {server.process.returncode}\n{tail}")


def _kill_recovering(server: Server, report: Report, chance: random.Random) -> None:
    """Start and kill before, while or just after the server has put its house in order."""
    usual = report.restart_s(0.5) if report.restarts_s else RESTART_GUESS_S
    server.spawn()
    time.sleep(chance.uniform(0, 1.3 * usual))
    server.kill()
    report.kills += 1
    report.recovery_kills += 1


def _whereabouts(server: Server) -> dict[str, object]:
    return {"host": server.address[0], "port": server.address[1], "pid": server.pid}


def main() -> int:
    """Run from the command line; the exit status is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--root-dir", type=Path, help="an empty directory to keep, for a look afterwards")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.kills} kills of {' '.join(server_command())}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="crash-") as scratch:
        report = run(given.kills, given.seed, given.root_dir or Path(scratch) / "data")
    print(json.dumps(report.as_json(), indent=2) if given.json else report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
