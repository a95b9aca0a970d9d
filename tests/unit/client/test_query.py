"""Filters: what is sent, and what is refused because the server would read it as something else."""

from __future__ import annotations

import pytest

from anew.client.query import Filters
from anew.client.requests import target
from anew.errors import InvalidInput


def test_values_are_encoded_and_commas_between_them_are_literal() -> None:
    filters = Filters(queue=("a b", "c&d/e"), status=("ready", "dead"), priority="10..20")
    assert target("/jobs", filters.query()) == "/jobs?status=ready,dead&queue=a%20b,c%26d%2Fe&priority=10..20"


def test_nothing_set_is_no_query() -> None:
    assert target("/jobs", Filters().query()) == "/jobs"
    assert Filters().given() == {}


@pytest.mark.parametrize("value", ["", " ", "a,b"])
def test_a_value_that_would_widen_the_filter_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="queue: "):
        Filters(queue=(value,))
    with pytest.raises(InvalidInput, match="priority: "):
        Filters(priority=value)


def test_also_adds_without_dropping() -> None:
    filters = Filters(queue=("q",), status=("ready",)).also(id=("x",))
    assert filters == Filters(queue=("q",), status=("ready",), id=("x",))
    assert filters.also(status=("dead",)).status == ("dead",)
