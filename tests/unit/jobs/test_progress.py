"""Progress: the words, the values, and how long both are kept."""

import pytest

from anew.jobs import State
from anew.jobs.progress import KEPT_MS, Progress, Word, followed, is_over, reported, word_of

from .helpers import NOW


def test_the_words_are_these_six() -> None:
    assert [str(word) for word in Word] == ["unknown", "enqueued", "working", "success", "failed", "dead"]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (State.SCHEDULED, "enqueued"),
        (State.READY, "enqueued"),
        (State.IN_FLIGHT, "working"),
        (State.COMPLETED, "success"),
        (State.RETRYING, "failed"),
        (State.DEAD, "dead"),
        (State.CANCELLED, "dead"),
        (None, "dead"),
    ],
)
def test_the_word_for_each_state(state: State | None, word: str) -> None:
    assert word_of(state) == word


def test_a_record_follows_its_job() -> None:
    """Checklist 95 of Faktory's protocol: enqueued, working, success; percent and description stay."""
    record = followed(None, State.READY, NOW)
    assert record == Progress(Word.ENQUEUED, None, None, NOW)
    record = followed(record, State.IN_FLIGHT, NOW + 1)
    record = reported(record, 40, "rows", NOW + 2)
    assert record == Progress(Word.WORKING, 40, "rows", NOW + 2)
    record = followed(record, State.COMPLETED, NOW + 3)
    assert record == Progress(Word.SUCCESS, 40, "rows", NOW + 3)


def test_values_of_a_job_that_is_not_tracked_are_kept_and_its_state_stays_unknown() -> None:
    assert reported(None, 10, None, NOW) == Progress(Word.UNKNOWN, 10, None, NOW)


def test_what_a_report_leaves_out_keeps_its_value() -> None:
    record = reported(reported(None, 10, "first", NOW), None, "second", NOW + 1)
    assert record == Progress(Word.UNKNOWN, 10, "second", NOW + 1)
    assert reported(record, 0, None, NOW + 2) == Progress(Word.UNKNOWN, 0, "second", NOW + 2)


@pytest.mark.parametrize(("percent", "expected"), [(-5, 0), (0, 0), (100, 100), (10**30, 100)])
def test_percents_are_held_to_a_hundred(percent: int, expected: int) -> None:
    assert reported(None, percent, None, NOW).percent == expected


def test_a_long_description_is_cut() -> None:
    record = reported(None, None, "é" * 10_000, NOW)
    assert record.description is not None
    assert len(record.description.encode()) <= 1024


def test_a_record_is_over_half_an_hour_after_its_last_update() -> None:
    assert KEPT_MS == 1_800_000
    record = reported(followed(None, State.READY, NOW), 1, None, NOW + 60_000)
    assert not is_over(record, NOW + 60_000 + 1_799_999)
    assert is_over(record, NOW + 60_000 + 1_800_000)
