"""What pages say of a job: instants in words, what may be done with it, what its policy holds for it."""

from __future__ import annotations

import time

import msgspec
import pytest

from anew.backoff import Policy
from anew.jobs import ErrorRecord, State
from anew.web.dashboard.shown import (
    DAYS,
    DEEPEST,
    MOST_PLANNED,
    MOST_TEXT,
    attempt,
    cut,
    doable,
    facts,
    history,
    moment,
    payload_text,
    plan,
)
from tests.unit.jobs.helpers import make_job

NOW = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC, day 19,675
EVERY_MINUTE = Policy.from_json({"curve": {"constant": "1m"}, "limit": 5})


@pytest.mark.parametrize(
    ("at", "words", "exact"),
    [
        (NOW, "now", "2023-11-14 22:13:20 UTC"),
        (NOW + 256_000, "in 4 min 16 s", "2023-11-14 22:17:36 UTC"),
        (NOW - 1_500, "1.5 s ago", "2023-11-14 22:13:18 UTC"),
    ],
)
def test_an_instant_is_told_both_ways(at: int, words: str, exact: str) -> None:
    assert moment(at, NOW) == (words, exact)


def test_an_instant_behind_all_calendars_has_no_date() -> None:
    assert moment(1 << 62, NOW).exact == "after all calendars"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.SCHEDULED, ["run", "cancel", "delete"]),
        (State.RETRYING, ["run", "cancel", "delete"]),
        (State.READY, ["cancel", "delete"]),
        (State.IN_FLIGHT, ["cancel", "delete"]),
        (State.COMPLETED, ["delete"]),
        (State.DEAD, ["retry", "delete"]),
        (State.CANCELLED, ["retry", "delete"]),
    ],
)
def test_only_what_is_possible_is_offered(state: State, expected: list[str]) -> None:
    assert doable(state) == expected


def test_facts_leave_out_what_a_job_does_not_have() -> None:
    job = make_job(type="pay", queue="money", attempts=2, retry_limit=7, jid=None, ready_at=NOW)
    told = {name: text or at for name, text, at in facts(job, NOW)}
    assert (told["Failures"], told["Retries allowed"]) == ("2", "7")
    assert "Id from its producer" not in told
    assert "Completed" not in told


def test_a_plan_tells_the_next_three_retries_and_how_many_are_left() -> None:
    """A minute between all of five retries; one was made."""
    told = plan(make_job(state=State.RETRYING, attempts=1, retry_limit=None, policy=None), EVERY_MINUTE)
    assert told is not None
    assert told.retries == [(2, "1 min"), (3, "1 min"), (4, "1 min")]
    assert told.left == 4
    assert told.link.startswith("/lab?a=")


def test_a_plan_ends_with_the_limit() -> None:
    told = plan(make_job(state=State.IN_FLIGHT, attempts=4, retry_limit=None, policy=None), EVERY_MINUTE)
    assert told is not None
    assert (told.retries, told.left) == ([(5, "1 min")], 1)
    last = plan(make_job(state=State.IN_FLIGHT, attempts=5, retry_limit=None, policy=None), EVERY_MINUTE)
    assert last is not None
    assert (last.retries, last.left) == ([], 0)


def test_a_plan_of_very_many_retries_is_not_calculated() -> None:
    endless = Policy.from_json({"curve": {"constant": "1m"}, "limit": None})
    told = plan(make_job(attempts=MOST_PLANNED, retry_limit=None, policy=None), endless)
    assert told is not None
    assert (told.retries, told.left) == ([], None)


@pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD, State.CANCELLED])
def test_what_has_ended_has_no_plan(state: State) -> None:
    assert plan(make_job(state=state), EVERY_MINUTE) is None


def test_a_policy_that_cannot_be_read_has_no_plan() -> None:
    assert plan(make_job(state=State.READY, policy=b"{"), EVERY_MINUTE) is None


def test_an_attempt_tells_its_decision_in_words() -> None:
    decision = msgspec.json.encode(
        {"verdict": "retry", "nominal_ms": 60_000, "wait_ms": 60_000, "due_at": NOW + 60_000}
    )
    record = ErrorRecord(1, "error", "no route", "OSError", None, NOW - 1_500, NOW, decision)
    told = attempt(record, NOW)
    assert told["error"] == "OSError: no route"
    assert told["ran"] == "1.5 s"
    assert told["decision"].startswith("retry after 1 min: ")


@pytest.mark.parametrize("decision", [None, b"\xff", b"[]"])
def test_a_decision_that_cannot_be_read_is_left_out(decision: bytes | None) -> None:
    record = ErrorRecord(1, "timed_out", "", None, None, NOW, NOW, decision)
    assert attempt(record, NOW)["decision"] == ""


def test_a_payload_is_indented_and_a_damaged_one_shown_as_it_is() -> None:
    assert payload_text(b'{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'
    assert payload_text(b'{"a":\xff') == '{"a":\ufffd'


def test_a_payload_that_is_nested_deep_is_not_indented() -> None:
    """900 levels around 20,000 numbers would be 36 MB of blanks. Brackets in a text are no levels."""
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    assert payload_text(deep).startswith("[\n  [\n    [")
    assert payload_text(b"[" + deep + b"]") == f"[{deep.decode()}]"
    assert payload_text(b"[" * 5_000 + b"]" * 5_000) == "[" * 5_000 + "]" * 5_000
    assert payload_text(b'["' + b"[" * 60 + b'\\"["]').startswith('[\n  "[')


def test_long_texts_are_cut_and_say_so() -> None:
    assert cut("x" * MOST_TEXT) == "x" * MOST_TEXT
    assert cut("x" * (MOST_TEXT + 1_234)).endswith("x\n… 1,234 characters more")


def test_the_history_has_a_day_for_each_day_today_last() -> None:
    days = history({19_675: (10, 3), 19_600: (1, 1)}, NOW)
    assert len(days) == DAYS
    assert days[-1] == ("2023-11-14", 7, 3)
    assert days[0] == ("2023-10-16", 0, 0)


def test_a_damaged_payload_is_looked_through_once() -> None:
    """Damage took the closing quotation mark: looked for again from each of the 30,000 others it would take minutes."""
    payload = b'{"a": "' + b'\\"' * 30_000
    began = time.thread_time()
    assert payload_text(payload).startswith('{"a": "')
    assert time.thread_time() - began < 5
