"""Links to the lab's page: what they hold, and that the page takes it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest

from anew.lab.charts.link import beyond_page, link
from anew.web.lab.state import read_state


def test_a_link_brings_the_same_policies_to_the_page() -> None:
    assert link(["even", {"preset": "zizq", "limit": 3}], chart="curve", jobs=None, retry=3) == (
        "/lab?a=even&b=%7B%22preset%22:%22zizq%22,%22limit%22:3%7D&chart=curve&retry=3"
    )
    # Where people chat, a link ends before a brace, a bracket, a quotation mark or a blank.
    assert not re.search(r"""[][{}<>"'` ]""", link([{"phases": [{"preset": "even"}]}, "a b"]))
    assert link(["even"] * 5) == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"jobs": 100_000, "seed": 2**53 - 1, "retry": 100}, ""),
        ({"jobs": 100_001}, "its jobs is a whole number from 1 to 100000"),
        ({"seed": -1}, "its seed is a whole number from 0 to 9007199254740991"),
        ({"retry": 101}, "its retry is a whole number from 1 to 100"),
        ({"until": "366d"}, "its until is a duration from 0 to 365d"),
        ({"outage": "366d"}, "its outage is a duration from 0 to 365d"),
    ],
)
def test_a_link_holds_nothing_that_the_page_refuses(more: dict[str, Any], said: str) -> None:
    forms = [{"preset": "even", "limit": 30}]
    assert beyond_page(forms, **more).startswith(said)
    assert bool(beyond_page(forms, **more)) == bool(said) == (not link(forms, **more))
    asked = urlencode({"a": "even", **more})
    assert bool(read_state(asked.encode()).errors()) == bool(said)


def test_a_link_holds_no_more_than_the_page_works_out() -> None:
    # 30,001 jobs with 100 retries are 3,000,100 calls.
    endless = [{"preset": "temporal", "limit": 100}]
    assert link(endless, jobs=30_000)
    assert beyond_page(endless, jobs=30_001) == "it takes 3,000,000 retries of a herd at most"
    assert beyond_page(["even"] * 5) == "it takes 4 policies at most"
