"""When a new job may be folded into a waiting one."""

import pytest

from anew.jobs import Move, State
from anew.jobs.fold import Entry, closes, entry_of
from anew.jobs.unique import End

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


def test_a_job_that_was_taken_called_off_or_removed_is_closed_for_good() -> None:
    closing = {event for event in (*Move, *End) if closes(event)}
    assert closing == {"take", "cancel", "kill", "expired", "deleted", "reaped"}
