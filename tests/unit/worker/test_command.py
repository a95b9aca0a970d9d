"""The worker's own decisions, by hand-made messages; no process, no server."""

from __future__ import annotations

import dataclasses
import threading
from datetime import timedelta
from typing import Any

import pytest

from anew.client import Filters, JobView
from anew.client.feed import Connected, Delivered, FeedMessage, Heartbeat, Lost, retry_wait_ms
from anew.errors import InternalError, NotFound, Overloaded, Unreachable
from anew.worker import reports
from anew.worker.command import CommandWorker, Share, WorkOptions, _Done, _FromFeed
from anew.worker.process import Ended, Run, without_secrets
from anew.worker.reports import Notice, Reported, Verdict, is_another_attempt, report_until_heard


def job(attempts: int, job_id: str = "a") -> JobView:
    return JobView(
        id=job_id, type="t", queue="q", status="in_flight", priority=1, ready_at=0, attempts=attempts
    )


@pytest.mark.parametrize(
    ("verdict", "ran", "offered", "again"),
    [
        # The report came while the job waited between two leases: it counted for nothing, and the job is ours again.
        ("gone", 0, 0, True),
        # The report ended the lease under which the job was delivered meanwhile.
        ("completed", 0, 0, False),
        ("failed", 0, 0, False),
        # The failure was heard, and this is the retry, delivered before we knew.
        ("failed", 0, 1, True),
        ("refused", 0, 0, False),
        ("unreported", 0, 0, False),
    ],
)
def test_a_job_delivered_while_its_run_goes_on(verdict: Verdict, ran: int, offered: int, again: bool) -> None:
    assert is_another_attempt(Reported(verdict=verdict), job(ran), job(offered)) is again


def test_waits_between_tries_double_to_a_cap_and_are_never_below_half() -> None:
    # 250 ms doubling to 10 s; half is certain, half is chance.
    for retry, ceiling in ((1, 250), (2, 500), (3, 1_000), (6, 8_000), (7, 10_000), (1_000, 10_000)):
        assert retry_wait_ms(retry, None, lambda: 0.0) == ceiling // 2
        assert ceiling - 1 <= retry_wait_ms(retry, None, lambda: 1 - 2**-53) <= ceiling


def test_a_server_that_asks_for_a_longer_wait_gets_it_up_to_a_minute() -> None:
    for asked_s, wait_ms in ((0, 125), (3, 3_000), (86_400, 60_000)):
        busy = Overloaded("busy")
        busy.retry_after = timedelta(seconds=asked_s)
        assert retry_wait_ms(1, busy, lambda: 0.0) == wait_ms
    assert retry_wait_ms(1, NotFound("gone"), lambda: 0.0) == 125


class Server:
    """A client that counts as many jobs as it was given, and remembers what it was asked."""

    def __init__(self, count: int = 0) -> None:
        self.jobs = count
        self.asked: list[Filters] = []

    def count(self, filters: Filters) -> int:
        self.asked.append(filters)
        return self.jobs


def worker_of(*shares: Share, server: Server | None = None, **options: Any) -> CommandWorker:
    """A worker whose threads do not run: a test hands it the messages."""
    client: Any = server or Server()
    return CommandWorker(
        client, WorkOptions(command=("true",), shares=shares, **options), lambda notice: None
    )


def hear(worker: CommandWorker, number: int, message: FeedMessage) -> None:
    worker._handle(_FromFeed(number, message))


def begun(worker: CommandWorker) -> list[str]:
    """The jobs that runners have been given since the last call."""
    found = []
    while not worker._work.empty():
        task = worker._work.get_nowait()
        assert task is not None
        found.append(task[0].id)
    return found


def done(worker: CommandWorker, one: JobView, verdict: Verdict = "completed") -> None:
    worker._handle(_Done(one, Ended(kind="success", took_ms=1), Reported(verdict=verdict)))


def test_jobs_that_wait_for_a_runner_begin_in_the_order_in_which_they_came() -> None:
    worker = worker_of(Share(queues=("q",)))
    jobs = [job(0, name) for name in "abc"]
    for one in jobs:
        hear(worker, 0, Delivered(one))
    for one in jobs:
        assert begun(worker) == [one.id]
        done(worker, one)


def test_a_share_that_is_full_leaves_the_others_theirs() -> None:
    worker = worker_of(Share(queues=("mail",), concurrency=2), Share(queues=("web",)))
    for name in "abc":
        hear(worker, 0, Delivered(job(0, name)))
    assert begun(worker) == ["a", "b"]
    hear(worker, 1, Delivered(job(0, "x")))
    hear(worker, 1, Delivered(job(0, "y")))
    assert begun(worker) == ["x"]
    done(worker, job(0, "x"))
    assert begun(worker) == ["y"]
    done(worker, job(0, "a"))
    assert begun(worker) == ["c"]


def test_a_stream_that_breaks_takes_only_its_own_waiting_jobs_along() -> None:
    worker = worker_of(Share(queues=("mail",)), Share(queues=("web",)))
    for number, names in enumerate(("ab", "xy")):
        for name in names:
            hear(worker, number, Delivered(job(0, name)))
    assert begun(worker) == ["a", "x"]
    hear(worker, 0, Lost(None, 100))
    done(worker, job(0, "a"))
    done(worker, job(0, "x"))
    assert begun(worker) == ["y"]


def stopped(worker: CommandWorker) -> bool:
    return worker._state.stops > 0


def test_drain_ends_when_all_streams_were_idle_after_the_last_run() -> None:
    server = Server(count=1)
    worker = worker_of(Share(queues=("mail",)), Share(queues=("web",)), server=server, drain=True)
    for number in (0, 1):
        hear(worker, number, Connected())
    hear(worker, 0, Heartbeat())
    hear(worker, 1, Delivered(job(0, "x")))
    done(worker, job(0, "x"))
    assert server.asked[-1] == Filters(queue=("mail", "web"), status=("ready", "in_flight"))
    # The run of x may have enqueued a job for mail after mail's heartbeat.
    hear(worker, 1, Heartbeat())
    assert not stopped(worker)
    hear(worker, 0, Heartbeat())
    assert stopped(worker)


def test_drain_asks_about_all_queues_where_one_share_takes_from_all() -> None:
    server = Server(count=0)
    worker = worker_of(Share(), server=server, drain=True)
    hear(worker, 0, Connected())
    assert server.asked == [Filters(status=("ready", "in_flight"))]
    assert stopped(worker)


class BrokenRun(Run):
    """A run whose thread meets what nobody foresaw."""

    killed = False

    def run(self) -> Ended:
        raise RuntimeError("can't start new thread")

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(job(1), "failed"), (NotFound("gone"), "gone"), (TypeError("a bug"), "unreported")],
)
def test_a_run_or_a_report_that_raises_does_not_hold_its_job(
    answer: JobView | Exception, verdict: Verdict
) -> None:
    worker = worker_of(Share(), server=Reports(answer))
    run = BrokenRun(["true"], job(0))
    worker._work.put((job(0), run))
    worker._work.put(None)
    worker._run_jobs()
    message = worker._inbox.get_nowait()
    assert isinstance(message, _Done)
    assert (message.ended.error_type, message.ended.message) == ("RuntimeError", "can't start new thread")
    assert message.reported.verdict == verdict
    assert run.killed


FAULT = InternalError("the server made a mistake")
DOWN = Unreachable("no server")


class Reports(Server):
    """A client whose failure reports meet these answers in turn, the last one for ever."""

    def __init__(self, *answers: JobView | Exception) -> None:
        super().__init__()
        self.answers = answers
        self.tries = 0

    def failure(self, job_id: str, message: str, *, error_type: str) -> JobView:
        answer = self.answers[min(self.tries, len(self.answers) - 1)]
        self.tries += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "tries", "verdict", "lines"),
    [
        ([job(1)], 1, "failed", 0),
        ([DOWN, FAULT, DOWN, job(1)], 4, "failed", 1),
        # What cannot be reached may be back tomorrow: twenty tries are not too many.
        ([DOWN] * 20 + [job(1)], 21, "failed", 1),
        ([FAULT] * 9 + [job(1)], 10, "failed", 1),
        ([FAULT], 10, "refused", 1),
        # Ten answers of 500 in all, whatever lies between them.
        ([FAULT] * 5 + [DOWN] * 3 + [FAULT], 13, "refused", 1),
    ],
)
def test_a_report_that_is_not_heard_is_logged_once_and_given_up_after_ten_faults_of_the_server(
    answers: list[JobView | Exception],
    tries: int,
    verdict: Verdict,
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "retry_wait_ms", lambda retry, error: 0)
    client: Any = Reports(*answers)
    logged: list[Notice] = []
    ended = Ended(kind="error", error_type="exit status 3", took_ms=1)
    reported = report_until_heard(client, job(0), ended, threading.Event(), logged.append)
    assert (reported.verdict, client.tries, len(logged)) == (verdict, tries, lines)
    for notice in logged:
        assert (notice.level, notice.what, notice.job) == ("warn", "reporting", job(0))
        assert notice.text == f"{answers[0]}; trying again in 0 ms"


@pytest.mark.parametrize("verdict", ["failed", "gone", "refused", "unreported"])
def test_a_job_that_did_not_complete_is_counted(verdict: Verdict) -> None:
    worker = worker_of(Share(), once=True)
    hear(worker, 0, Delivered(job(0)))
    hear(worker, 0, Delivered(job(0, "b")))
    assert begun(worker) == ["a"]
    done(worker, job(0), verdict)
    assert stopped(worker)
    assert worker._state.incomplete == 1


def test_programs_do_not_see_the_secrets_of_their_worker() -> None:
    environment = {
        "ANEW_TOKEN": "s", "ANEW_KEY": "s", "ANEW_ADMIN_PASSWORD": "s", "ZIZQ_LICENSE_KEY": "s", "anew_token": "s",
        "ANEW_URL": "u", "ANEW_CA": "c", "PATH": "p", "MY_TOKEN": "t", "MANEW_TOKEN": "t",
    }  # fmt: skip
    assert without_secrets(environment).keys() == {"ANEW_URL", "ANEW_CA", "PATH", "MY_TOKEN", "MANEW_TOKEN"}


def test_a_run_that_is_killed_after_its_end_has_ended_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """While what its program has started still holds stderr, its end is not reported yet: the job would run again."""
    run = Run(["true"], job(0))

    def text(tail: object) -> str:
        run.kill()
        return ""

    monkeypatch.setattr("anew.worker.process._Tail.text", text)
    assert run.run().kind == "success"


def test_a_name_that_cannot_stand_in_the_environment_is_a_failure_and_no_end_of_the_runner() -> None:
    """As a snowman where the locale is Latin-1: the worker would hold the job for ever and run no other."""
    odd = dataclasses.replace(job(0), type="\ud800")
    ended = Run(["true"], odd).run()
    assert (ended.kind, ended.error_type) == ("error", "cannot start")
    assert ended.message.startswith("true: ")
