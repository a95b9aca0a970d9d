"""Unique keys: the digest, the conflict, and what each move makes of a lock, against a copy of the documented table."""

from itertools import product
from pathlib import Path

import pytest

from anew.errors import InvalidInput
from anew.jobs import Move, State
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.unique import (
    TIMED,
    Effect,
    End,
    Lock,
    Scope,
    conflicts,
    effect_of,
    lock_ends_at,
    parts_digest,
    text_digest,
)

from .helpers import NOW

WAITING = {"scheduled", "retrying", "ready"}
EVERY = {str(state) for state in State}
DOCUMENT = Path(__file__).parents[3] / "docs" / "rules.md"


# -- digests


def test_a_key_of_any_text_has_a_digest_of_sixteen_bytes() -> None:
    """Checklist 28 of Zizq's API: nothing but the text counts."""
    assert {len(text_digest(key)) for key in ("", "order-7", "日本", "\ud800", "x" * 100_000)} == {16}
    assert text_digest("a") != text_digest("b")
    assert text_digest("a") == text_digest("a")


def test_parts_do_not_run_into_each_other() -> None:
    digests = {
        parts_digest("ab", "c", b"[]"),
        parts_digest("a", "bc", b"[]"),
        parts_digest("a", "b", b"c[]"),
        parts_digest("", "abc", b"[]"),
        parts_digest("abc", "", b"[]"),
    }
    assert len(digests) == 5


def test_a_text_never_meets_the_parts_of_a_job() -> None:
    parts = (b"send", b"mail", b"[1]")
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts).decode()
    assert text_digest(text) != parts_digest("send", "mail", b"[1]")


@pytest.mark.parametrize(
    "other", [("sent", "mail", b"[1]"), ("send", "post", b"[1]"), ("send", "mail", b"[2]")]
)
def test_type_queue_and_arguments_all_count(other: tuple[str, str, bytes]) -> None:
    assert parts_digest(*other) != parts_digest("send", "mail", b"[1]")


# -- how long


@pytest.mark.parametrize(
    ("seconds", "ready_at", "expected"),
    [
        (60, None, NOW + 60_000),
        (60, NOW - 5_000, NOW + 60_000),  # from the push, not from a time that is over
        (60, NOW + 3_600_000, NOW + 3_660_000),  # scheduled: its delay and then so long
        (0.5, None, NOW + 500),
        (64.1, None, NOW + 64_100),
        (0.0001, None, NOW + 1),
        (10**400, None, NOW + 36_500 * 86_400_000),
        (1, LAST_INSTANT, LAST_INSTANT),
    ],
)
def test_when_a_timed_lock_ends(seconds: float, ready_at: int | None, expected: int) -> None:
    assert lock_ends_at(seconds, ready_at, NOW) == expected


@pytest.mark.parametrize("seconds", [0, -1, -0.5, "60", True, None, [60], float("nan"), float("inf")])
def test_a_duration_that_is_no_positive_number_is_refused(seconds: object) -> None:
    with pytest.raises(InvalidInput, match="expected a positive number of seconds") as caught:
        lock_ends_at(seconds, None, NOW)
    assert caught.value.field == "unique_for"


# -- conflicts


@pytest.mark.parametrize(
    ("scope", "states"),
    [
        (Scope.QUEUED, WAITING),
        (Scope.ACTIVE, WAITING | {"in_flight"}),
        (Scope.EXISTS, EVERY),
        (Scope.STARTED, WAITING),
        (Scope.SUCCEEDED, WAITING | {"in_flight"}),
        (Scope.OPEN, set()),
    ],
)
def test_the_new_jobs_scope_decides_against_the_holders_state(scope: Scope, states: set[str]) -> None:
    """Checklist 27, 30 and 31 of Zizq's API."""
    for held in (Scope.QUEUED, Scope.ACTIVE, Scope.EXISTS):
        lock = Lock(text_digest("k"), 7, held)
        assert {str(state) for state in State if conflicts(lock, scope, state, NOW)} == states
        assert not conflicts(lock, scope, None, NOW)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("holder", [*State, None])
def test_a_timed_lock_holds_until_its_end_whatever_becomes_of_its_job(
    scope: Scope, holder: State | None
) -> None:
    lock = Lock(text_digest("k"), 7, Scope.SUCCEEDED, ends_at=NOW + 1)
    assert conflicts(lock, scope, holder, NOW)
    assert not conflicts(lock, scope, holder, NOW + 1)


# -- moves

KEEPS, FREES, TAKES = "stays", "released", "taken if free"
EXPECTED = {
    # event:    queued  active  exists  started succeeded open
    "promote":  [KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "hasten":   [KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "postpone": [KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "take":     [FREES, KEEPS, KEEPS, FREES, KEEPS, FREES],
    "retry":    [TAKES, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "release":  [TAKES, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "snooze":   [TAKES, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "delay":    [TAKES, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS],
    "complete": [FREES, FREES, KEEPS, KEEPS, FREES, FREES],
    "die":      [FREES, FREES, KEEPS, KEEPS, KEEPS, FREES],
    "cancel":   [FREES, FREES, KEEPS, KEEPS, KEEPS, FREES],
    "kill":     [FREES, FREES, KEEPS, KEEPS, KEEPS, FREES],
    "expired":  [FREES, FREES, KEEPS, KEEPS, KEEPS, FREES],
    "redrive":  [TAKES, TAKES, TAKES, KEEPS, KEEPS, KEEPS],
    "deleted":  [FREES, FREES, FREES, KEEPS, KEEPS, FREES],
    "reaped":   [FREES, FREES, FREES, KEEPS, KEEPS, FREES],
}  # fmt: skip
WORDS = {Effect.KEEP: KEEPS, Effect.RELEASE: FREES, Effect.CLAIM: TAKES}


@pytest.mark.parametrize(("event", "scope"), list(product([*Move, *End], Scope)))
def test_what_each_move_makes_of_a_lock(event: Move | End, scope: Scope) -> None:
    """Checklist 32 and 33 of Zizq's API, 94 of Faktory's protocol."""
    assert WORDS[effect_of(scope, event)] == EXPECTED[event][list(Scope).index(scope)]


def test_the_document_has_this_table() -> None:
    rows = [f"| `{event}` | {' | '.join(words)} |" for event, words in EXPECTED.items()]
    text = DOCUMENT.read_text("utf-8")
    assert [row for row in rows if row not in text] == []


def test_the_scopes_that_end_by_a_time_outlive_every_removal() -> None:
    assert {scope for scope in Scope if effect_of(scope, End.DELETED) is Effect.KEEP} == TIMED
