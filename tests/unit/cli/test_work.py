"""How much of what ``anew work`` takes at once."""

from __future__ import annotations

import pytest

from anew.cli.work import shares_of
from anew.errors import InvalidInput
from anew.worker import Share


@pytest.mark.parametrize(
    ("queues", "concurrency", "shares"),
    [
        ((), "1", [Share()]),
        (("a", "b"), "8", [Share(queues=("a", "b"), concurrency=8)]),
        ((), "mail=4,web=2", [Share(queues=("mail",), concurrency=4), Share(queues=("web",), concurrency=2)]),
        # A queue that is named without a number has one run.
        (("web", "mail"), "mail=4", [Share(queues=("web",)), Share(queues=("mail",), concurrency=4)]),
        # The last sign parts name and number: a queue's name may hold others.
        ((), "a=b=3", [Share(queues=("a=b",), concurrency=3)]),
    ],
)
def test_a_number_is_for_all_queues_and_numbers_by_name_are_for_each(
    queues: tuple[str, ...], concurrency: str, shares: list[Share]
) -> None:
    assert shares_of(queues, concurrency, once=False) == tuple(shares)


def test_a_single_job_is_taken_through_a_single_stream() -> None:
    assert shares_of((), "mail=4,web=2", once=True) == (Share(queues=("mail", "web")),)
    assert shares_of(("q",), "8", once=True) == (Share(queues=("q",)),)


@pytest.mark.parametrize(
    "concurrency", ["", "0", "1001", "-1", "x", "=2", "a=", "a=0", "a=1,", "a=1,a=2", "a=1000,b=1", "4,a=1"]
)
def test_what_is_no_concurrency_is_refused(concurrency: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"--concurrency: .* is not valid; expected a number from 1 to 1,000"
    ):
        shares_of((), concurrency, once=False)


def test_a_number_for_a_queue_that_is_not_taken_from_is_refused() -> None:
    with pytest.raises(InvalidInput, match='--concurrency: "web" is not valid; expected a queue of --queue'):
        shares_of(("mail",), "web=2", once=False)
