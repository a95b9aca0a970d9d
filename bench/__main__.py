"""`python -m bench`: measures the server, and a peer beside it if one is named."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import report, scenarios
from bench.figures import median_row
from bench.http1 import NotServed
from bench.report import Row, Table
from bench.servers import Server, settle, start_all

WORK_DIR = Path(__file__).parent / ".work"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    made.add_argument(
        "--only",
        type=names,
        default=scenarios.NAMES,
        metavar="NAME,...",
        help=f"measure these alone: {', '.join(scenarios.NAMES)}",
    )
    made.add_argument(
        "--peer", metavar="CMD", help="a server with the same API, measured beside ours in turns"
    )
    made.add_argument("--rounds", type=positive, metavar="N", help="take the median of N (3; 1 with --quick)")
    made.add_argument("--quick", action="store_true", help="about a tenth of the jobs, to see that it runs")
    made.add_argument("--json", action="store_true", help="print all figures as JSON instead of the tables")
    made.add_argument(
        "--work-dir",
        type=Path,
        default=WORK_DIR,
        metavar="DIR",
        help="where the servers' data go; a real disk",
    )
    return made


def names(text: str) -> list[str]:
    """Read a list of scenarios.

    Raises:
        argparse.ArgumentTypeError: One is unknown; the message names those that exist.
    """
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in scenarios.NAMES]
    if unknown or not chosen:
        said = unknown[0] if unknown else text
        raise argparse.ArgumentTypeError(
            f"unknown scenario {said!r}; expected some of {', '.join(scenarios.NAMES)}"
        )
    return chosen


def positive(text: str) -> int:
    """Read a number of rounds."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


class Bench:
    """One run of chosen scenarios."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._peer: str | None = args.peer
        self._work_dir: Path = args.work_dir
        self._size = "quick" if args.quick else "full"
        self._rounds: int = args.rounds or (1 if args.quick else 3)
        self._only: list[str] = args.only
        self._rates = [name for name in scenarios.RATES if name in args.only]

    def run(self) -> dict[str, Table]:
        """Measure, and give the tables `rates`, `backlog`, `bursts`, `queues` and `takers` (each only if asked for)."""
        tables: dict[str, Table] = {}
        if self._only == ["backlog"]:
            self._rates = list(scenarios.RATES)
        if self._rates:
            tables["rates"] = {name: self._fresh(name, self._rate(name), "rate") for name in self._rates}
        if "backlog" in self._only:
            tables["backlog"] = self._backlog()
        if "bursts" in self._only:
            tables["bursts"] = {
                name: self._fresh(name, self._wait(one), "p99_ms") for name, one in scenarios.BURSTS.items()
            }
        if "queues" in self._only:
            tables["queues"] = {
                f"{queues:,} queues, {name}": self._fresh(
                    f"{queues} {name}",
                    partial(scenarios.spread, queues=queues, how=how, size=self._size),
                    "rate",
                )
                for name, how in scenarios.SPREADS.items()
                for queues in scenarios.QUEUES
            }
        if "takers" in self._only:
            tables["takers"] = {
                f"{streams:,} takers": self._fresh(
                    f"{streams} takers", partial(scenarios.takers, streams=streams, size=self._size), "all_ms"
                )
                for streams in scenarios.TAKERS[self._size]
            }
        return tables

    def _rate(self, name: str) -> Callable[[Server], Row]:
        return lambda server: scenarios.rate(server, name, self._size)

    def _wait(self, measure: Callable[[Server, str], Row]) -> Callable[[Server], Row]:
        return lambda server: measure(server, self._size)

    def _fresh(self, name: str, measure: Callable[[Server], Row], key: str) -> dict[str, Row]:
        """Measure one scenario on servers that have just started."""
        servers = start_all(self._peer, self._work_dir)
        try:
            for server in servers:
                scenarios.warm(server)
            return self._turns(name, servers, measure, key)
        finally:
            for server in servers:
                server.stop()

    def _backlog(self) -> Table:
        """Measure the chosen rates once more while very many jobs wait in another queue."""
        servers = start_all(self._peer, self._work_dir)
        waiting = scenarios.WAITING[self._size]
        try:
            for server in servers:
                took = scenarios.fill(server, "waiting", waiting)
                said = f"{waiting:,} jobs wait after {took['seconds']:.0f} s, {server.usage().rss_mb:.0f} MB"
                print(f"backlog: {server.name}: {said}", file=sys.stderr)
            rates = self._rates or list(scenarios.RATES)
            return {
                name: self._turns(f"{name} +backlog", servers, self._rate(name), "rate") for name in rates
            }
        finally:
            for server in servers:
                server.stop()

    def _turns(
        self, name: str, servers: list[Server], measure: Callable[[Server], Row], key: str
    ) -> dict[str, Row]:
        """Measure each server in each round, the order turned every time, and keep each one's median.

        A load that a server has no route for is skipped. A round in which the peer fails is reported and left out; ours failing
        ends the run.
        """
        rows: dict[str, list[Row]] = {server.name: [] for server in servers}
        for turn in range(self._rounds):
            for server in servers if turn % 2 == 0 else reversed(servers):
                settle(servers)
                try:
                    row = measure(server)
                except NotServed as error:
                    print(f"{name:20} {server.name:5} skipped: {error}", file=sys.stderr)
                    continue
                except RuntimeError as error:
                    if server.name != "peer":
                        raise
                    print(f"{name:20} {error}\n{server.log_end()}", file=sys.stderr)
                    continue
                rows[server.name].append(row)
                said = f"{row['rate']:9,.0f}/s  p50 {row['p50_ms']:7.2f}  p99 {row['p99_ms']:7.2f} ms"
                print(f"{name:20} {server.name:5} {said}", file=sys.stderr)
        return {server: median_row(found, key) for server, found in rows.items() if found}


def render(tables: dict[str, Table], work_dir: Path) -> str:
    """Write the tables with what they were measured on."""
    parts = [report.machine(work_dir)]
    if "rates" in tables:
        parts += ["Rates:", report.rates(tables["rates"])]
    if "backlog" in tables:
        parts += [
            "The same beside the jobs that wait:",
            report.rates(tables["backlog"], tables.get("rates", {})),
        ]
    if "bursts" in tables:
        parts += ["What small enqueues wait:", report.waits(tables["bursts"])]
    if "queues" in tables:
        parts += ["Jobs spread over many queues:", report.rates(tables["queues"])]
    if "takers" in tables:
        parts += ["One batch for many takers:", report.served(tables["takers"])]
    return "\n\n".join(parts)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what the arguments ask for and print it; progress goes to stderr."""
    args = parser().parse_args(argv)
    try:
        tables = Bench(args).run()
    except RuntimeError as error:
        raise SystemExit(f"bench: {error}") from error
    if args.json:
        print(json.dumps({"machine": report.machine(args.work_dir), **tables}))
    else:
        print(render(tables, args.work_dir))


if __name__ == "__main__":
    main()
