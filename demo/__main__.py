"""The story: 200 invoices, a receiver that is down, a policy of one's own, a kill -9 in the middle, and the sums."""

from __future__ import annotations

import csv
import json
import random
import signal
import sys
import threading
import time
from typing import Any
from urllib.request import urlopen

from anew.client import Client, Draft, Filters, JobView
from anew.errors import Unavailable

from .report import (
    QUEUE,
    Standing,
    policy_rows,
    retries_of,
    say,
    show_history,
    show_retries,
    show_sums,
)
from .stage import HERE, Stage, stage

POLICY = {"curve": {"exponential": {"base": "400ms"}}, "jitter": "even", "limit": 5}
"""Seconds, so that a demo can wait for it; in real life this would be minutes and hours."""

FIRST, BULK = 100, 10
"""Invoices in the first call, and in each of the calls that follow."""

PAUSE_S = 0.85
KILL_AT_BULK = 9
PATIENCE_S = 60

Row = dict[str, str]


class Producer(threading.Thread):
    """Enqueues the invoices in bulk, as a program would that knows nothing of what goes on around it.

    Args:
        client: Its client.
        rows: The invoices.

    Attributes:
        poised: Set when the call that is to meet the kill is about to leave; it leaves when `go` is set.
        back: To be set when there is a server again.
        settled: Set when it is known what became of that call.
        accepted: Ids of the jobs that the server has answered for.
    """

    def __init__(self, client: Client, rows: list[Row]) -> None:
        super().__init__(daemon=True)
        self._client, self._rows = client, rows
        self.poised, self.go = threading.Event(), threading.Event()
        self.back, self.settled = threading.Event(), threading.Event()
        self.accepted: list[str] = []

    def run(self) -> None:
        """Send one bulk after the other."""
        self._enqueue(self._rows[:FIRST])
        for number, at in enumerate(range(FIRST, len(self._rows), BULK), start=1):
            time.sleep(PAUSE_S)
            bulk = self._rows[at : at + BULK]
            if number == KILL_AT_BULK:
                self._enqueue_under_fire(bulk)
            else:
                self._enqueue(bulk)

    def _enqueue(self, rows: list[Row]) -> None:
        drafts = [Draft(type="invoice.deliver", queue=QUEUE, payload=row, policy=POLICY) for row in rows]
        self.accepted += [job.id for job in self._client.enqueue_many(drafts)]

    def _enqueue_under_fire(self, bulk: list[Row]) -> None:
        """Send the bulk that meets the kill. Without an answer it is stored as a whole or not at all: look, then go on."""
        self.poised.set()
        self.go.wait()
        try:
            self._enqueue(bulk)
        except Unavailable:
            self.back.wait()
            numbers = {row["invoice"] for row in bulk}
            found = [job.id for job in all_jobs(self._client) if job.data()["invoice"] in numbers]
            if found:
                say(
                    f"       the enqueue without an answer had been carried out: its {len(found)} jobs are there"
                )
                self.accepted += found
            else:
                say("       the enqueue without an answer had not been carried out; it is sent again")
                self._enqueue(bulk)
        else:
            self.back.wait()
            say("       the enqueue had been answered in the last moment")
        self.settled.set()


def all_jobs(client: Client) -> list[JobView]:
    """Every job of the demo, whatever its state: completed ones are kept for an hour."""
    return list(client.list(Filters(queue=(QUEUE,))))


def kill_and_restart(stage: Stage, client: Client, producer: Producer) -> tuple[int, int]:
    """Kill the server while jobs wait, are in flight and are being enqueued; start it again and compare.

    Returns:
        From when to when there was no server, epoch ms.
    """
    before = Standing.read(client)
    producer.go.set()
    time.sleep(random.uniform(0, 0.002))  # the call is on its way, or being stored, or just being answered
    killed_at = now_ms()
    pid = stage.kill_server()
    say(
        f"     kill -9 {pid} while {before.retrying} jobs wait, some are in flight, and {BULK} are being enqueued",
        "red",
    )
    returned = stage.serve()
    back_at = now_ms()
    found = {job.id for job in all_jobs(client)}
    answered = set(producer.accepted)
    say(f"     up again after {(back_at - killed_at) / 1000:.1f} s, on the same directory:", "green")
    say(f"       {len(answered & found)} of the {len(answered)} jobs that had been answered for are there")
    say(f"       {returned} were in flight when it died; they are ready again at once")
    producer.back.set()
    producer.settled.wait(PATIENCE_S)
    if answered - found:
        raise SystemExit(f"lost: {sorted(answered - found)}")
    return killed_at, back_at


def play(stage: Stage, rows: list[Row]) -> bool:
    """Play the whole story; tell whether everything added up."""
    say(f"$ anew policy explain '{json.dumps(POLICY)}'", "bold")
    say(stage.anew("policy", "explain", json.dumps(POLICY)))

    stage.serve()
    receiver = stage.receiver()
    stage.worker(receiver)
    say(f"{len(rows)} invoices go to a receiver that refuses connections for 4 s, answers 503", "bold")
    say("for 2.5 s more, and then books what it can. Four cannot be read, three have no customer.\n", "bold")
    started = time.monotonic()
    down = (0, 0)
    with Client(stage.url) as client:
        producer = Producer(client, rows)
        producer.start()
        for second in range(1, PATIENCE_S):
            if (
                producer.poised.wait(max(0.0, started + second - time.monotonic()))
                and not producer.go.is_set()
            ):
                down = kill_and_restart(stage, client, producer)
            time.sleep(max(0.0, started + second - time.monotonic()))
            standing = Standing.read(client)
            say(f"{second:3} s  {standing.line(len(rows))}")
            if standing.delivered + standing.dead == len(rows):
                break
        return conclude(stage, client, rows, receiver, down)


def conclude(stage: Stage, client: Client, rows: list[Row], receiver: int, down: tuple[int, int]) -> bool:
    """Show the dead, one job's history, all retries, and the sums."""
    say("\n$ anew dead list --queue invoices", "bold")
    say(stage.anew("dead", "list", "--queue", QUEUE).rstrip())
    say("  422: the invoice itself is wrong; the worker said so (kill), and the job was dead at once.", "dim")
    say(
        f"  404: that might pass, so the job was retried until its {POLICY['limit']} retries were spent.",
        "dim",
    )

    jobs = all_jobs(client)
    allowed = policy_rows(POLICY)
    histories = {
        job.id: list(retries_of(job, list(client.errors(job.id)), allowed)) for job in jobs if job.attempts
    }
    completed = [job for job in jobs if job.status == "completed" and job.attempts]
    if completed:
        longest = max(completed, key=lambda job: job.attempts)
        show_history(longest, histories[longest.id])
    kept = show_retries([retry for history in histories.values() for retry in history], down)
    with urlopen(f"http://127.0.0.1:{receiver}/") as answer:
        booked: dict[str, Any] = json.load(answer)
    return show_sums(rows, jobs, booked) and kept


def now_ms() -> int:
    """Now, epoch ms."""
    return time.time_ns() // 1_000_000


def main() -> int:
    """Run the demo; 0 if everything added up."""
    # As if by Ctrl-C: the stage is cleared away whoever ends us. SIGHUP is a terminal that was closed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    with (HERE / "invoices.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    try:
        with stage() as made:
            right = play(made, rows)
    except KeyboardInterrupt:
        say("\ninterrupted; nothing is left behind")
        return 130
    say("\nEverything adds up." if right else "\nIt does NOT add up.", "green" if right else "red")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
