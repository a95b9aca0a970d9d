"""The head of the page: what is wanted becomes policies, a herd and an outage, and an address that brings it back."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

import pytest

from anew.web.lab.state import State, read_state

from .pages import Page, page

pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

WISH = {"want.outlive": "1h", "want.jobs": "2000", "want.calls": "20", "want.first": "10s"}


def verdict(made: Page) -> list[list[str]]:
    """The rows of the verdict, a text a cell."""
    place = made.html.partition('id="verdict"')[2].partition("</div>")[0].partition("<tbody>")[2]
    rows = [re.split(r"<t[dh][^>]*>", row)[1:] for row in place.split("<tr")[1:]]
    return [[" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in row] for row in rows]


def state_of(**given: str) -> State:
    return read_state(urlencode(given).encode())


def test_a_page_that_is_asked_nothing_shows_what_could_be_asked() -> None:
    made = page("")
    assert [one.attributes["value"] for one in made.named("input") if one.attributes.get("name") in WISH] == [
        "3d", "10000", "50", "10s",
    ]  # fmt: skip
    assert "want" not in made.data["url"]


def test_a_wish_is_answered_with_policies_its_herd_and_its_outage() -> None:
    state = state_of(**WISH)
    assert [card.label for card in state.cards] == ["A few calls", "B soon done"]
    assert (state.values["jobs"], state.values["outage"]) == (2_000, 3_600_000)
    assert not state.notes


@pytest.mark.parametrize("today", ["sidekiq", '{"curve": {"constant": "1m"}, "limit": 5}'])
def test_what_somebody_has_today_stands_first(today: str) -> None:
    state = state_of(**WISH, **{"want.today": today})
    assert [card.key for card in state.cards] == ["a", "b", "c"]
    assert state.cards[0].policy is not None
    assert [card.title for card in state.cards] == ["", "few calls", "soon done"]


def test_the_address_brings_it_back_and_what_was_changed_since() -> None:
    first = state_of(**WISH)
    again = read_state(first.url().partition("?")[2].encode())
    assert [card.policy for card in again.cards] == [card.policy for card in first.cards]
    assert [card.label for card in again.cards] == ["A few calls", "B soon done"]
    changed = dict(a=json.dumps({"curve": {"constant": "1m"}, "limit": 70}), **WISH)
    state = state_of(**changed)
    assert [card.label for card in state.cards] == ["A custom"]
    assert state.intent.wish is not None
    assert state.intent.wish.calls == 20


@pytest.mark.parametrize(
    ("changed", "name", "words"),
    [
        ({"want.outlive": "soon"}, "want.outlive", "is not valid"),
        ({"want.outlive": "15s"}, "want.outlive", "twice the first wait"),
        ({"want.jobs": "0"}, "want.jobs", "from 1 to 100000"),
        ({"want.calls": "-1"}, "want.calls", "is not valid"),
    ],
)
def test_what_does_not_fit_is_told_beside_its_field(changed: dict[str, str], name: str, words: str) -> None:
    state = state_of(**{**WISH, **changed})
    (item,) = [item for item in state.intent.controls if item.name == name]
    assert words in item.error
    assert state.intent.proposals == ()
    assert [card.key for card in state.cards] == ["a", "b"]  # what a page begins with


def test_a_policy_of_today_that_cannot_be_read_is_told_and_escaped() -> None:
    made = page(urlencode({**WISH, "want.today": "<script>alert(1)</script>"}))
    assert "<script>alert" not in made.html
    assert made.data["errors"]["a"]


def test_the_verdict_says_who_dies_what_comes_and_when_all_is_done() -> None:
    made = page(urlencode({**WISH, "want.today": '{"curve": {"constant": "1m"}, "limit": 5}'}))
    rows = verdict(made)
    # Five minutes do not outlive an hour; the proposals do.
    assert rows[0] == ["A custom", "2,000 100 % die", "–", "– nobody gets through"]
    assert [row[1] for row in rows[1:]] == ["0 none dies"] * 2
    assert [row[2].partition("s ")[2] for row in rows[1:]] == ["within 20"] * 2
    assert [row[3].rpartition(" ")[2] for row in rows[1:]] == ["latest", "soonest"]


def test_without_an_outage_the_verdict_is_of_the_policies_alone() -> None:
    """Five waits of 5 min outlive 25 min, ten of them 50; 1,000 jobs come at once each time."""
    rows = verdict(page("a=constant&a.limit=5&b=constant&b.limit=10"))
    assert rows[0][:3] == ["A constant", "25 min shortest", "1,000 calls"]
    assert rows[1][:3] == ["B constant", "50 min longest", "1,000 calls"]
