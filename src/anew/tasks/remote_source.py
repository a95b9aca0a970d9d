"""Where a worker's jobs come from that works for a server: they arrive on take streams, and reports go back by requests.

A stream holds its jobs for as long as it is open. When it breaks, the server offers them to whoever takes, and this worker opens
another; where the server gives it a job again that it still runs, the run goes on and holds the job anew, and where the run has
ended meanwhile it says how.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from anew.backoff import policy_from_json
from anew.client import Client, Filters, JobView, Page
from anew.client.feed import PASSING, Connected, Delivered, Feed, FeedMessage, Heartbeat, Lost, retry_wait_ms
from anew.clock import SystemClock
from anew.errors import AnewError, NotFound, TooLarge
from anew.jobs import Cancelled, Failed, Interrupted, Snoozed, State
from anew.jobs.breaker import BreakerRow, BreakerSettings, BreakerState
from anew.tasks.app import Anew
from anew.tasks.backend import CRASHES, BatchCounts
from anew.tasks.running import CALLED_OFF, HELD, NOTHING, Run, Stopped
from anew.tasks.source import Exchanged, Settled, Want, report_of, services_of

log = logging.getLogger("anew.tasks")

MOST_REPORTS: Final = 500
REPORT_BYTES: Final = 1 << 20
"""Reports and their bytes in one request, if it has more than one."""

MOST_ASKED: Final = 100
"""Jobs of which one request asks what they carry."""

MOST_DONE: Final = 1_000
"""Runs that are kept which have ended, and could not say so before they lost their jobs."""

IDLE_TIMEOUT_MS: Final = 30_000
"""Silence, the server's heartbeats included, after which a stream counts as broken."""

_NOT_ENDED: Final = (State.SCHEDULED, State.RETRYING, State.READY, State.IN_FLIGHT)
_numbers = itertools.count(1)


class RemoteSource:
    """A `Source` of a server.

    Args:
        app: Whose tasks they are calls of.
        client: The server's.
    """

    def __init__(self, app: Anew, client: Client) -> None:
        self._tasks = app.tasks
        self._downstreams = app.downstreams
        self._around_runs = app.around_runs
        self._client = client
        self.now = SystemClock().now
        self._worker_id = f"{socket.gethostname()}:{os.getpid()}:{next(_numbers)}"
        self._streams: dict[Sequence[str] | None, _Stream] = {}
        self._changed = threading.Condition()
        self._seen = 0
        self._tries = 0
        self._again_at = 0.0
        self._is_quiet = False
        self._unsaid: list[dict[str, Any]] = []
        """What breakers have not been told, as the server could not be reached."""

    @property
    def seen(self) -> int:
        return self._seen

    def sleep(self, seconds: float, seen: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._seen != seen, seconds)

    def wake(self) -> None:
        with self._changed:
            self._seen += 1
            self._changed.notify_all()

    def note_begun(self, slot: int, run: Run) -> None:
        """Nothing: the server sees only that a worker has gone."""

    def progress(self, job_id: str, percent: int | None, text: str | None) -> None:
        self._client.request("POST", f"/v1/jobs/{job_id}/progress", {"percent": percent, "text": text})

    def batch_of(self, job_id: str) -> BatchCounts | None:
        ties = self._client.get(job_id).ties
        if ties is None or ties.batch is None:
            return None
        shown = self._client.request("GET", f"/v1/batches/{quote(ties.batch, safe='')}")
        return msgspec.json.decode(shown, type=BatchCounts)

    def close(self) -> None:
        """Close the streams: the server gives back at once what they still hold."""
        for stream in self._streams.values():
            stream.close()

    def may_have_lost(self) -> bool:
        return True

    def lost(self, runs: Sequence[Run]) -> Mapping[Run, Stopped]:
        """See `Source`. A run whose stream has broken goes on while its job has not ended: it may hold it anew."""
        lost: dict[Run, Stopped] = {}
        if time.monotonic() < self._again_at:
            return lost
        by_id = {run.job_id: run for run in runs}
        ids = [*by_id]
        try:
            for at in range(0, len(ids), MOST_ASKED):
                asked = ids[at : at + MOST_ASKED]
                part = Filters(id=asked, state=_NOT_ENDED)
                if self._client.count(part) == len(asked):  # nearly always, and no payload travels
                    continue
                there = {job.id for job in self._client.list(part, page=MOST_ASKED)}
                lost |= {by_id[one]: CALLED_OFF for one in asked if one not in there}
        except PASSING as error:
            self._wait(error)
        except AnewError as error:  # the streams say so too, and louder
            log.debug("whether jobs were cancelled is not known", extra={"reason": str(error)})
        return lost

    # -- exchanges

    def exchange(self, ended: Sequence[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> Exchanged:
        done = Exchanged([], [], [], [])
        for stream in self._streams.values():
            stream.check()
        if not wants and not self._is_quiet:
            given_back = [*given_back, *self._be_quiet()]
        ended = [*ended, *(run for stream in self._streams.values() for run in stream.come_back())]
        if time.monotonic() < self._again_at:
            done.again += [run for run in ended if not run.held]
            done.kept = given_back
        else:
            self._go_on()
            self._report(ended, given_back, done)
        done.taken = [self._taken(want) for want in wants]
        if self._around_runs:
            self._read_carried({run.job_id: run for runs in done.taken for run in runs})
        if self._downstreams:
            again = set(map(id, done.again))
            self._ask([run for run in ended if id(run) not in again], done)
        done.is_drained = all(stream.is_drained for stream in self._streams.values())
        return done

    def _taken(self, want: Want) -> list[Run]:
        stream = self._streams.get(want.queues)
        if stream is None:
            stream = self._streams[want.queues] = _Stream(self, want, self._client, self._worker_id)
        return stream.take(want.limit)

    def _read_carried(self, runs: Mapping[str, Run]) -> None:
        """Read what jobs carry, which a take stream does not have; where the server does not say, they carry nothing."""
        ids = [*runs]
        try:
            for at in range(0, len(ids), MOST_ASKED):
                part = Filters(id=ids[at : at + MOST_ASKED])
                page: Page | None = self._client.page(part, limit=MOST_ASKED, last_errors=True)
                while page is not None:
                    for job in page:
                        runs[job.id].carried = job.carried or NOTHING
                    page = page.next()
        except AnewError as error:
            log.warning("what jobs carry could not be read", extra={"reason": str(error)})

    def _be_quiet(self) -> list[Run]:
        """Have the server deliver nothing more; give what has come and was not begun."""
        self._is_quiet = True
        try:
            self._client.request("POST", f"/v1/workers/{quote(self._worker_id, safe='')}/quiet")
        except AnewError as error:
            log.warning("the server could not be told to deliver nothing more", extra={"reason": str(error)})
        return [run for stream in self._streams.values() for run in stream.take(None)]

    def _go_on(self) -> None:
        """Say of runs whose jobs have come back to them that they go on: their worker has not died."""
        runs = [run for stream in self._streams.values() for run in stream.resumed() if not run.ended_ns]
        for at in range(0, len(runs), MOST_REPORTS):
            reports = [_named(run, "goes_on") for run in runs[at : at + MOST_REPORTS]]
            try:
                self._client.request("POST", "/v1/jobs/reports", {"reports": reports})
            except AnewError as error:
                log.warning("the server could not be told that runs go on", extra={"reason": str(error)})

    def _report(self, ended: Sequence[Run], given_back: Sequence[Run], done: Exchanged) -> None:
        reports = [(run, _report_of(run)) for run in ended if not run.held]
        reports += [(run, _named(run, "released")) for run in given_back]
        parts = deque(_parts(reports))
        while parts:
            part = parts.popleft()
            # From now on a job that comes again is a new attempt of it: the answer to a report may come later than the job.
            runs = {run.key: run for run, _ in part}
            known = [(stream, stream.forget(runs)) for stream in self._streams.values()]
            try:
                answer = self._client.request(
                    "POST", "/v1/jobs/reports", {"reports": [one for _, one in part]}
                )
            except PASSING as error:
                for stream, forgotten in known:
                    stream.remember(forgotten)
                rest = [*part, *(one for more in parts for one in more)]
                done.again += [run for run, report in rest if report["end"] != "released"]
                done.kept = [run for run, report in rest if report["end"] == "released"]
                self._wait(error)
                return
            except TooLarge as error:
                for stream, forgotten in known:
                    stream.remember(forgotten)
                if len(part) > 1:
                    half = len(part) // 2
                    parts.extendleft((part[half:], part[:half]))
                else:
                    ((run, report),) = part
                    self._reported(run, report, {"error": str(error), "code": error.code}, None, done)
                continue
            self._tries = 0
            origins = {key: (stream, at) for stream, forgotten in known for key, (_, at) in forgotten.items()}
            for (run, report), result in zip(part, msgspec.json.decode(answer)["results"], strict=True):
                self._reported(run, report, result, origins.get(run.key), done)

    def _wait(self, error: AnewError) -> None:
        """Try again after a while, as the policy of streams says."""
        self._tries += 1
        wait_ms = retry_wait_ms(self._tries, error)
        self._again_at = time.monotonic() + wait_ms / 1_000
        log.warning(
            "the server takes no reports; they are kept", extra={"reason": str(error), "wait_ms": wait_ms}
        )

    def _reported(
        self,
        run: Run,
        report: Mapping[str, Any],
        result: Mapping[str, Any],
        origin: tuple[_Stream, int] | None,
        done: Exchanged,
    ) -> None:
        if "error" not in result:
            if report["end"] == "released":
                return
            state = State(result["state"])
            job = None if state is State.COMPLETED else Settled(state, result["ready_at"])
            done.settled.append((run, job))
        elif report["end"] == "released":
            done.lost.append(run)
        elif result["code"] == NotFound.code:
            if run.stopped is not None or origin is None or not origin[0].keep(run, origin[1]):
                done.lost.append(run)
        elif isinstance(run.outcome, Failed) and not (run.outcome.policy or run.outcome.retry_at):
            log.error(
                "the server refuses a report; the job comes back when this worker ends",
                extra={"job_id": run.job_id, "reason": result["error"]},
            )
            done.lost.append(run)
        else:  # it must not stay in flight: it failed, with the reason why it could not be reported
            run.outcome, run.result = Failed(message=result["error"], error_type=result["code"]), None
            done.again.append(run)

    # -- breakers

    def _ask(self, ended: Sequence[Run], done: Exchanged) -> None:
        """Say how runs have ended, and keep back those whose service fails."""
        keys = services_of(self._tasks)
        self._unsaid += [
            _ended_run(run, keys[run.name]) for run in ended if run.name in keys and not run.held
        ]
        held = [run for run in ended if run.held]
        waiting = [*held, *(run for runs in done.taken for run in runs if run.name in keys)]
        if not (self._unsaid or waiting):
            return
        question = {
            "settings": {key: _terms(settings) for key, settings in self._downstreams.items()},
            "ended": self._unsaid,
            "waiting": [
                _named(run, None) | {"breaker": keys[run.name], "retry": run.attempts > 0, "held": run.held}
                for run in waiting
            ],
        }
        if time.monotonic() < self._again_at:
            self._put_off_asking(held, keys, done)
            return
        try:
            answer = msgspec.json.decode(self._client.request("POST", "/v1/breakers", question))
        except PASSING as error:
            self._put_off_asking(held, keys, done)
            self._wait(error)
            return
        self._unsaid, self._tries = [], 0
        self._answered(answer, held, done)

    def _put_off_asking(self, held: Sequence[Run], keys: Mapping[str, str], done: Exchanged) -> None:
        """Keep what breakers are to be told, and the jobs whose handlers must not be called before that is known."""
        self._unsaid = self._unsaid[-MOST_REPORTS:]
        done.again += held
        for runs in done.taken:
            for run in reversed([run for run in runs if run.name in keys]):
                for stream in self._streams.values():
                    stream.put_back(run)
            runs[:] = [run for run in runs if run.name not in keys]

    def _answered(self, answer: Mapping[str, Any], held: Sequence[Run], done: Exchanged) -> None:
        until = {one["id"]: one["ready_at"] for one in answer["held"]}
        done.open = {key: 0 if probe is None else key_of(probe) for key, probe in answer["open"].items()}
        done.turned = [breaker_row(one) for one in answer["turned"]]
        kept = [run for runs in done.taken for run in runs if run.job_id in until]
        for runs in done.taken:
            runs[:] = [run for run in runs if run.job_id not in until]
        for stream in self._streams.values():
            stream.forget({run.key: run for run in (*held, *kept)})
        for run in (*held, *kept):
            ready_at = until.get(run.job_id)
            if ready_at is None:
                done.lost.append(run)
                continue
            run.outcome = Snoozed(ready_at=ready_at, reason=HELD, outcome="held")
            done.settled.append((run, Settled(State.SCHEDULED, ready_at)))
        done.held = len(kept)

    # -- for the streams

    def run_of(self, job: JobView) -> Run:
        """Make a run of a job that has come."""
        return Run(
            key=key_of(job.id),
            token=job.dequeued_at or 0,
            job_id=job.id,
            name=job.type,
            queue=job.queue,
            payload=job.payload_json(),
            attempts=job.attempts,
            max_attempts=_most_attempts(job),
            task=self._tasks.get(job.type),
            ready_at=job.ready_at,
            retention=None if job.retention is None else msgspec.json.encode(job.retention),
        )


class _Stream:
    """One take stream, over all its connections.

    Args:
        source: Told when something has come.
        want: Its queues, and how many jobs it may hold.
        client: The server's.
        worker_id: What the server calls it.

    Attributes:
        is_drained: The server has had nothing more to deliver.
    """

    def __init__(self, source: RemoteSource, want: Want, client: Client, worker_id: str) -> None:
        self._source = source
        self._waiting: deque[Run] = deque()
        self._lock = threading.Lock()
        self._lost: AnewError | None = None
        self._connections = 0
        self._is_broken = False
        # By key: not reported, and over which connection it came.
        self._running: dict[int, tuple[Run, int]] = {}
        self._done: dict[int, Run] = {}  # by key: ended, and not said in time, as the connection had broken
        self._back: list[Run] = []  # of those, what holds its job anew
        self._resumed: list[Run] = []  # what goes on and holds its job anew
        self.is_drained = False
        self._feed = Feed(
            client,
            self._tell,
            queues=want.queues or (),
            prefetch=max(want.limit, 1),
            idle_timeout_ms=IDLE_TIMEOUT_MS,
            wait_for_server=True,
            worker_id=worker_id,
            interruption_limit=CRASHES,
        )
        self._feed.start()

    def take(self, limit: int | None) -> list[Run]:
        """Give runs that have come, at most so many."""
        with self._lock:
            number = len(self._waiting) if limit is None else min(limit, len(self._waiting))
            runs = [self._waiting.popleft() for _ in range(number)]
            self._running |= {run.key: (run, self._connections) for run in runs}
            return runs

    def forget(self, runs: Mapping[int, Run]) -> dict[int, tuple[Run, int]]:
        """Know some runs no longer, by key; give what `remember` takes."""
        with self._lock:
            return {key: self._running.pop(key) for key, run in runs.items() if self._knows(run)}

    def _knows(self, run: Run) -> bool:
        known = self._running.get(run.key)
        return known is not None and known[0].token == run.token

    def remember(self, runs: Mapping[int, tuple[Run, int]]) -> None:
        """Know runs again that were not reported after all."""
        with self._lock:
            self._running |= runs

    def keep(self, run: Run, connection: int) -> bool:
        """Keep a run that has ended, and had lost its hold with its connection; report whether that is so.

        It is kept until its job comes again. No stream may be open yet: the server can be back long before the next try.
        """
        with self._lock:
            if connection == self._connections and not self._is_broken:
                return False
            self._done[run.key] = run
            while len(self._done) > MOST_DONE:
                del self._done[next(iter(self._done))]
            for come in [one for one in self._waiting if one.key == run.key]:
                self._waiting.remove(come)
                self._delivered(come)
            return True

    def come_back(self) -> list[Run]:
        """Give runs that have ended, and hold their jobs anew."""
        with self._lock:
            runs, self._back = self._back, []
            return runs

    def resumed(self) -> list[Run]:
        """Give runs that go on, and hold their jobs anew."""
        with self._lock:
            runs, self._resumed = self._resumed, []
            return runs

    def put_back(self, run: Run) -> None:
        """Have a run that was taken and not begun be taken again; where its connection has broken, the server has its job."""
        with self._lock:
            if not self._knows(run):
                return
            _, connection = self._running.pop(run.key)
            if connection == self._connections and not self._is_broken:
                self._waiting.appendleft(run)
                self.is_drained = False

    def check(self) -> None:
        """Raise what has ended it for good.

        Raises:
            AnewError: The server refuses it.
        """
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Close it; what it holds returns to the queue."""
        self._feed.close()

    def _tell(self, message: FeedMessage) -> None:
        """Called by the feed's thread."""
        with self._lock:
            match message:
                case Connected():
                    self._connections += 1
                    self._is_broken = self.is_drained = False
                case Heartbeat():
                    self.is_drained = not self._waiting
                case Delivered(job):
                    self._delivered(self._source.run_of(job))
                case Lost(error, wait_ms):
                    self._waiting.clear()  # the server has them back
                    self._is_broken = True
                    if error is not None:
                        log.warning(
                            "the stream of jobs broke", extra={"reason": str(error), "wait_ms": wait_ms}
                        )
                    if wait_ms is None:
                        self._lost = error
        self._source.wake()

    def _delivered(self, run: Run) -> None:
        self.is_drained = False
        finished = self._done.pop(run.key, None)
        if finished is not None and finished.attempts == run.attempts:
            finished.token = run.token
            self._back.append(finished)
            return
        running, connection = self._running.get(run.key, (None, 0))
        if running is None or running.stopped is not None or connection == self._connections:
            self._waiting.append(run)
        else:  # the connection broke, and the job has come back to the run that goes on
            running.token = run.token
            self._running[run.key] = running, self._connections
            self._resumed.append(running)


def key_of(job_id: str) -> int:
    """Give a number for a job that no other job of the server has."""
    return int(job_id[-16:], 16)


def _parts(reports: Sequence[tuple[Run, dict[str, Any]]]) -> Iterator[list[tuple[Run, dict[str, Any]]]]:
    """Cut reports into requests."""
    part: list[tuple[Run, dict[str, Any]]] = []
    size = 0
    for run, report in reports:
        part.append((run, report))
        size += 200 + sum(
            len(value) for value in report.values() if isinstance(value, str | bytes | msgspec.Raw)
        )
        if len(part) == MOST_REPORTS or size > REPORT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _named(run: Run, end: str | None) -> dict[str, Any]:
    named: dict[str, Any] = {"id": run.job_id, "taken_at": run.token}
    return named if end is None else named | {"end": end}


def _report_of(run: Run) -> dict[str, Any]:
    """Say how a run has ended, as the server reads it."""
    match run.outcome:
        case None:
            result = {} if run.result is None else {"result": msgspec.Raw(run.result)}
            return _named(run, "succeeded") | result
        case Failed() as failed:
            report = msgspec.structs.asdict(failed)
            policy = report.pop("policy")
            return (
                _named(run, "failed") | report | ({} if policy is None else {"policy": msgspec.Raw(policy)})
            )
        case Snoozed() as snoozed:
            return _named(run, "snoozed") | msgspec.structs.asdict(snoozed)
        case Cancelled() as cancelled:
            return _named(run, "cancelled") | {"reason": cancelled.reason}
        case Interrupted() as interrupted:
            return _named(run, "interrupted") | {"limit": CRASHES, "reason": interrupted.how}


def _ended_run(run: Run, key: str) -> dict[str, Any]:
    report = report_of(run, key)
    return {
        "breaker": key, "id": run.job_id, "ok": report.ok, "retry": report.retry, "until": report.until
    }  # fmt: skip


def _terms(settings: BreakerSettings) -> dict[str, Any]:
    return msgspec.structs.asdict(settings) | {"cooldown": settings.cooldown.to_json()}


def breaker_row(shown: Mapping[str, Any]) -> BreakerRow:
    """Read a breaker as the server shows it."""
    return BreakerRow(
        key=shown["key"],
        state=BreakerState(shown["state"]),
        runs=shown["runs"],
        failures=shown["failures"],
        opened=shown["opened"],
        reopen_at=shown["reopens_at"] or 0,
        next_release_at=shown["released_until"] or 0,
    )


def _most_attempts(job: JobView) -> int | None:
    """Give how often a job runs at most, as far as it says so itself: the server's defaults are not known here."""
    if job.retry_limit is not None:
        return job.retry_limit + 1
    if job.policy is None:
        return None
    try:
        retries = policy_from_json(msgspec.json.encode(job.policy)).retries
    except AnewError:
        return None
    return None if retries is None else retries + 1
