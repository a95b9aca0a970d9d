"""What the end of a hold counts as, for each kind of hold."""

from __future__ import annotations

import pytest

from anew.jobs import Failed, HoldEnd, HoldKind, Interrupted, verdict_of

GONE = Interrupted("worker gone")
LATE = Interrupted("lease lapsed")
EXPIRED = Failed(message="reservation expired", error_type="ReservationExpired")

TABLE = {
    # A stream ends with its worker's connection; that the server died is no fault of its workers.
    HoldKind.STREAM: (GONE, LATE, "release", "release"),
    # A reservation needs no connection and no server, only to be settled in time; that it was not is a failure.
    HoldKind.RESERVATION: ("stand", EXPIRED, "stand", "stand"),
    # A session is the worker's own process: its death is a crash of the jobs that it had begun with.
    HoldKind.SESSION: (GONE, LATE, GONE, "release"),
}
"""By kind: its holder left, its deadline passed, the process that answers for it has died, that one had not begun with it."""

ENDS = (HoldEnd.HOLDER_LEFT, HoldEnd.LAPSED, HoldEnd.PROCESS_DIED, HoldEnd.NEVER_BEGUN)


def test_the_table_knows_every_kind_and_every_end() -> None:
    assert set(TABLE) == set(HoldKind)
    assert set(ENDS) == set(HoldEnd)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", TABLE)
def test_each_end_of_each_kind_counts_as_the_table_says(kind: HoldKind, end: HoldEnd) -> None:
    expected = TABLE[kind][ENDS.index(end)]
    assert verdict_of(kind, end) == expected
    assert verdict_of(int(kind), end) == expected  # as a row has it


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", [None, 0, -10, 11, 40])
def test_a_kind_that_is_none_gives_its_job_back_uncounted(kind: int | None, end: HoldEnd) -> None:
    assert verdict_of(kind, end) == "release"
