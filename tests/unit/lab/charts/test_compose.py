"""Pictures of any policies: their panels, names and links."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab.charts.data import KINDS, compose
from anew.lab.charts.figures import figure
from anew.lab.charts.pictures import Load
from anew.lab.charts.terminal import draw
from anew.lab.charts.text import Style
from anew.lab.named import Named
from anew.lab.simulation.scenario import Scenario

TWO = [Named("even", preset("even", limit=4)), Named("zizq", preset("zizq", limit=4))]


@pytest.mark.parametrize(
    ("kind", "panels"), [("band", 1), ("dots", 2), ("heat", 2), ("histogram", 2), ("load", 1)]
)
def test_every_kind_names_its_policies(kind: str, panels: int) -> None:
    picture = compose(kind, TWO)
    assert len(picture.panels) == panels
    assert picture.title.endswith(": even and zizq")


def test_the_title_tells_what_happens() -> None:
    assert (
        compose("dots", TWO[:1], Scenario(jobs=1, success=0), retries=2).title
        == "One job fails, and at every retry: even"
    )
    load = compose("load", TWO, Scenario(jobs=1_500, over_ms=60_000, outage_ms=7_200_000))
    assert load.title == "1,500 jobs fail within 1 min, in an outage of 2 h: even and zizq"


def test_many_long_names_are_counted_where_a_figure_has_no_room() -> None:
    named = [Named(f"zizq, limit {number}", preset("zizq", limit=number)) for number in range(10, 16)]
    # "The wait before each retry: " has 28 letters, each name 14, and ", " or " and " comes between.
    assert compose("band", named[:2]).title.endswith(": zizq, limit 10 and zizq, limit 11")
    assert compose("band", named).title == "The wait before each retry: 6 policies"


@pytest.mark.parametrize("log", [None, True, False])
def test_a_load_has_the_axis_that_was_asked_for(log: bool | None) -> None:
    picture = compose("load", TWO, Scenario(jobs=20, outage_ms=60_000), log=log)
    (panel,) = picture.panels
    assert isinstance(panel, Load)
    assert panel.log is bool(log), "nothing crowds at the beginning"


@pytest.mark.parametrize(
    ("kind", "count", "said"),
    [
        ("pie", 1, f"kind: .*pie.* is not valid; expected one of: {', '.join(KINDS)}"),
        ("band", 0, "policies: 0 of them are not valid; expected 1 to 6"),
        ("band", 7, "policies: 7 of them are not valid; expected 1 to 6"),
    ],
)
def test_what_does_not_fit_is_told(kind: str, count: int, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        compose(kind, TWO[:1] * count)


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_without_retries_has_nothing_to_draw(kind: str) -> None:
    with pytest.raises(InvalidInput, match="policy: even allows no retry"):
        compose(kind, [Named("even", preset("even", limit=0))])


@pytest.mark.parametrize("kind", ["band", "dots", "heat", "load"])
@pytest.mark.parametrize(
    "form",
    [
        {"curve": {"constant": "0s"}, "limit": 3},
        {"curve": {"constant": "5s"}, "deadline": "1s"},
        {"curve": {"constant": "365d"}, "limit": 30},
        {"curve": {"constant": "1ms"}, "limit": 1},
    ],
)
def test_odd_policies_can_be_drawn(kind: str, form: Any) -> None:
    picture = compose(kind, [Named("odd", Policy.from_json(form))], Scenario(jobs=5, success=0))
    assert draw(picture, Style())
    assert figure(picture, "svg")
