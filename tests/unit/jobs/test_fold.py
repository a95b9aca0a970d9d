"""When a new job may be folded into a waiting one."""

import pytest

from anew.jobs import Move, State
from anew.jobs.fold import Entry, entry_of, fold_digest
from anew.jobs.unique import Effect, End, Scope, effect_of, text_digest

from .helpers import NOW


@pytest.mark.parametrize(
    ("ready_at", "holder", "expected"),
    [
        (None, None, Entry.OPEN),
        (None, State.READY, Entry.ASK),  # checklist 35 and 36
        (NOW, State.READY, Entry.ASK),
        (NOW - 1, State.READY, Entry.ASK),
        (None, State.IN_FLIGHT, Entry.OPEN),  # checklist 39 of Zizq's API
        (None, State.SCHEDULED, Entry.OPEN),
        (None, State.RETRYING, Entry.OPEN),
        (None, State.COMPLETED, Entry.OPEN),
        (NOW + 1, None, Entry.APART),  # checklist 40
        (NOW + 1, State.READY, Entry.APART),
    ],
)
def test_how_a_new_job_comes_in(ready_at: int | None, holder: State | None, expected: Entry) -> None:
    assert entry_of(ready_at, holder, NOW) is expected


def test_a_job_that_was_taken_has_ended_or_was_removed_is_closed_for_good() -> None:
    """Checklist 39 of Zizq's API."""
    effects = {event: effect_of(Scope.OPEN, event) for event in (*Move, *End)}
    closing = {event for event, effect in effects.items() if effect is Effect.RELEASE}
    assert closing == {"take", "complete", "die", "cancel", "kill", "expired", "deleted", "reaped"}
    assert Effect.CLAIM not in effects.values()


def test_a_key_to_fold_by_is_no_unique_key() -> None:
    assert fold_digest("k") == fold_digest("k") != fold_digest("l")
    assert fold_digest("k") != text_digest("k")
    assert {len(fold_digest(key)) for key in ("", "\ud800", "x" * 100_000)} == {16}
