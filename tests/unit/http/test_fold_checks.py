"""The check of jobs that may be folded: what it refuses, how much it takes in, and that a shutdown does not wait for all of it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import msgspec
import pytest

from anew.errors import InternalError, InvalidExpression, Overloaded, TooLarge
from anew.http import fold_checks
from anew.http.fold_checks import FoldChecks
from anew.jobs import NewJob
from anew.jobs.zizq_ties import tied


class Language:
    """Stands for the language: its checks wait until they may go on, and what they come to is the payload.

    Attributes:
        begun: Set while a check waits.
        may_end: Lets all of them end.
        checked: How many have begun.
        error: What they raise.
    """

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.checked = 0
        self.error: Exception | None = None

    def check_fold(self, when: str, fold: str, payload: bytes, what: str = "batch") -> bytes:
        self.checked += 1
        self.begun.set()
        assert self.may_end.wait(10)
        if self.error is not None:
            raise self.error
        return payload


def job(payload: bytes = b"1") -> NewJob:
    batch = msgspec.Raw(b'{"key":"k","when":"true","fold":"$new"}')
    return tied(NewJob("t", "q", msgspec.Raw(payload), batch=batch))


def run(check: Any, *lists: list[NewJob], opened: bool = True) -> list[Any]:
    """Run checks of lists of jobs to their ends, and give what they came to."""
    results: list[Any] = []

    async def main() -> None:
        language = Language()
        if opened:
            language.may_end.set()
        checks = FoldChecks(language, asyncio.get_running_loop())  # type: ignore[arg-type]
        ended = asyncio.Event()

        def then(result: Any) -> None:
            results.append(result)
            if len(results) == len(lists):
                ended.set()

        check(language, checks)
        for jobs in lists:
            checks.run(jobs, then, listed="jobs")
        await asyncio.wait_for(ended.wait(), 10)
        checks.close()

    asyncio.run(main())
    return results


def no_more(language: Language, checks: FoldChecks) -> None: ...


def test_jobs_without_batch_are_not_checked() -> None:
    plain = NewJob("t", "q", msgspec.Raw(b"1"))
    unique = tied(NewJob("t", "q", msgspec.Raw(b"1"), unique_key="k"))
    assert run(no_more, [plain, unique], [job()]) == [None, None]


@pytest.mark.parametrize("payload", [b"[" * 127 + b"]" * 127, b"[1E+400]", b"1" * 400])
def test_a_fold_that_gives_what_nobody_could_send_is_refused(payload: bytes) -> None:
    (error,) = run(no_more, [job(), job(payload)])
    assert isinstance(error, InvalidExpression)
    assert str(error).startswith("jobs[1]: batch dry-run: fold: payload")


def test_an_error_that_nobody_foresaw_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(language: Language, checks: FoldChecks) -> None:
        language.error = RuntimeError("no")

    (error,) = run(broken, [job()])
    assert isinstance(error, InternalError)
    assert "the check of a batch failed" in caplog.text


def test_the_jobs_of_one_request_are_checked_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_checks, "CHECK_S", -1.0)
    languages: list[Language] = []
    (error,) = run(lambda language, checks: languages.append(language), [job(), job()])
    assert isinstance(error, TooLarge)
    assert languages[0].checked == 0


def test_a_request_waits_for_its_turn_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many slow ones are before it, and they are not checked any more either."""
    monkeypatch.setattr(fold_checks, "WAIT_S", -1.0)
    languages: list[Language] = []
    (error,) = run(lambda language, checks: languages.append(language), [job()])
    assert isinstance(error, Overloaded)
    assert languages[0].checked == 0


def test_a_list_of_cron_entries_may_have_more_of_them_than_a_bulk() -> None:
    """No transaction folds them."""

    async def main() -> object:
        answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        language = Language()
        language.may_end.set()
        checks = FoldChecks(language, asyncio.get_running_loop())  # type: ignore[arg-type]
        checks.run([job()] * 101, answered.set_result, listed="entries")
        with pytest.raises(TooLarge, match="jobs: expected at most 100 with batch in one request, got 101"):
            checks.run([job()] * 101, lambda result: None, listed="jobs")
        result = await asyncio.wait_for(answered, 10)
        checks.close()
        return result

    assert asyncio.run(main()) is None


@pytest.mark.parametrize(("bound", "value"), [("MOST_WAITING", 2), ("MOST_BYTES", 20)])
def test_so_many_requests_and_bytes_wait(monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    monkeypatch.setattr(fold_checks, bound, value)

    async def main() -> None:
        language = Language()
        checks = FoldChecks(language, asyncio.get_running_loop())  # type: ignore[arg-type]
        ended = asyncio.Event()
        for _ in range(2):
            checks.run([job(b'"12345678"')], lambda result: ended.set())
        with pytest.raises(Overloaded):
            checks.run([job()], lambda result: None)
        language.may_end.set()
        await asyncio.wait_for(ended.wait(), 10)
        await asyncio.sleep(0)
        checks.run([job()], lambda result: None)
        checks.close()

    asyncio.run(main())


def test_a_shutdown_waits_for_the_check_of_one_job() -> None:
    async def main() -> int:
        language = Language()
        checks = FoldChecks(language, asyncio.get_running_loop())  # type: ignore[arg-type]
        checks.run([job()] * 100, lambda result: None)
        assert await asyncio.to_thread(language.begun.wait, 10)
        threading.Timer(0.05, language.may_end.set).start()
        begun = time.monotonic()
        checks.close()
        assert time.monotonic() - begun < 5
        return language.checked

    assert asyncio.run(main()) == 1
