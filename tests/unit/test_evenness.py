"""The figures of docs/evenness.md come out again, each within its statistical error; see `bench.evenness` for the rule."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from anew.backoff import Policy
from bench import evenness
from bench.evenness import (
    LIMIT,
    Cell,
    Effort,
    Figure,
    Table,
    chart_figures,
    compare,
    gap_figures,
    published,
    step,
)
from bench.schemes import BUCKETS_MEAN, CHART, DOUBLED, GROWING, SIDEKIQ_MEAN, Scheme

SMALL = Effort(2_000, 2, 2)
SCHEMES = [*GROWING.values(), *DOUBLED.values(), *CHART.values()]


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return evenness.run(Effort(20_000, 16, 60))


def measured(cells: list[Cell], row: str, heading: str) -> float:
    """The first figure of ours that stands there."""
    return next(cell.measured for cell in cells if (cell.row, cell.heading) == (row, heading))


def test_every_figure_is_reproduced(cells: list[Cell]) -> None:
    assert [cell for cell in cells if not abs(cell.off) <= LIMIT] == []
    assert len(cells) == sum(len(texts) for table in published() for texts in table.rows.values()) == 507


def test_differences_are_those_of_chance(cells: list[Cell]) -> None:
    offs = [abs(cell.off) for cell in cells]
    # 68 and 95 per cent if all were normal and independent. Errors that are too wide would show on the other side.
    assert 0.6 < sum(off <= 1 for off in offs) / len(offs) < 0.9
    assert sum(off <= 2 for off in offs) / len(offs) > 0.9


def test_even_keeps_its_promises(cells: list[Cell]) -> None:
    even, buckets = "even (seq), Sidekiq's mean curve", "buckets, k³ to (k+2)³"
    assert measured(cells, "Sidekiq, a die of 30 faces", "cv16") / measured(cells, even, "cv16") > 100
    ratio = measured(cells, buckets, "rsd, %") / measured(cells, "even (seq), buckets' mean curve", "rsd, %")
    assert ratio == pytest.approx(2, rel=0.02)
    assert measured(cells, "even on constant", "rsd, %") == 0


def test_the_same_seed_gives_the_same_figures() -> None:
    scheme = GROWING["buckets, k³ to (k+2)³"]
    assert gap_figures(scheme, SMALL, 5) == gap_figures(scheme, SMALL, 5)
    assert gap_figures(scheme, SMALL, 5) != gap_figures(scheme, SMALL, 6)


def test_constant_waits_in_the_chart_of_old() -> None:
    found = chart_figures(CHART["constant, 5 min"], SMALL, 1)
    assert {name: figure.mean for name, figure in found.items()} == pytest.approx(
        {
            "horizon_ms": 1_500_000, "peak_10s": 100, "peak_60s": 100, "empty_minutes": 0.8, "silence_ms": 300_000,
            "rsd": 0, "max": 0, "window_rsd": 0, "shrink": 0,
        }
    )  # fmt: skip


TABLE = Table("t", (), {})


def test_a_difference_in_errors_by_hand() -> None:
    # In per cent: s = 0.1, ours 0.01 (1/10 + 1000/100000), theirs 0.01 (1/30 + 1000/200000), rounding 0.01/12.
    cell = compare(TABLE, "", "rsd, %", "5.4", {"rsd": Figure(0.055, 0.001)}, Effort(100_000, 10, 10))
    ours, theirs, rounding = 0.01 * 0.11, 0.01 * (1 / 30 + 0.005), 0.01 / 12
    assert cell.off == pytest.approx(0.1 / math.sqrt(ours + theirs + rounding))
    assert cell.shown == "5.5 (+2.1)"  # 0.1 / sqrt(0.0011 + 0.00038 + 0.00083) = 2.08


def test_a_figure_without_chance_may_differ_by_its_rounding_alone() -> None:
    def off(mean: float) -> float:
        return abs(compare(TABLE, "", "cv4", "1.732", {"cv4": Figure(mean, 0.0)}, SMALL).off)

    assert off(math.sqrt(3)) < 1
    assert off(1.735) > LIMIT


@pytest.mark.parametrize(("text", "size"), [("66", 1), ("5.4", 0.1), (".0500", 0.0001), ("0", 1)])
def test_the_step_of_a_printed_figure(text: str, size: float) -> None:
    assert step(text) == pytest.approx(size)


def test_what_is_printed_twice_agrees() -> None:
    """A slip in typing one table shows in the other. The one true disagreement is in the source: 39 and 38."""
    seen: dict[tuple[int, str], str] = {}
    for table in published():
        for row, texts in table.rows.items():
            for heading, text in zip(table.headings, texts, strict=True):
                other = seen.setdefault((id(table.schemes[row]), heading), text)
                if (row, heading) != ("even (seq) (15 s to 1 h)", "max, %"):
                    coarse = max(step(text), step(other))
                    assert abs(float(text) - float(other)) <= coarse / 2 + 1e-9, (row, heading)


def test_the_tables_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(evenness, "QUICK", SMALL)
    (result, *_) = published()
    monkeypatch.setattr(evenness, "published", lambda: [result])
    assert evenness.main(["--quick"]) == 0
    out = capsys.readouterr().out
    assert f"### {result.title}\n\n|  | rsd, % | max, % | cv16 | pk64 | empty hours, % |\n" in out
    assert out.count("| Sidekiq, a die of 30 faces |") == 1
    assert out.splitlines()[-1].endswith(
        "of 55 published figures met: within 4 standard errors, which stand in brackets."
    )
    assert evenness.main(["--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["published"] == "5.4"


# -- the schemes


def test_the_mean_curves() -> None:
    sidekiq, buckets = (Policy.from_json({"curve": curve}) for curve in (SIDEKIQ_MEAN, BUCKETS_MEAN))
    # 15 + 15k + (k-1)^4 seconds; (1 + 27) / 2, (8 + 64) / 2, (27 + 125) / 2.
    assert [sidekiq.nominal(k) / 1_000 for k in (1, 2, 3, 4, 10)] == [30, 46, 76, 156, 6_726]
    assert [buckets.nominal(k) / 1_000 for k in (1, 2, 3)] == [14, 36, 76]


@pytest.mark.parametrize(
    ("scheme", "low", "high"),
    [
        (GROWING["Sidekiq 8, a third of the jitter"], 15, 24),
        (GROWING["Rails, up to 15 % above"], 3, 3.15),
        (GROWING["River, ±10 %"], 0.9, 1.1),
        (GROWING["buckets, k³ to (k+2)³"], 1, 27),
        (CHART["Sidekiq, counted from 1"], 16, 76),
        (GROWING["+25 %, as zzz_jobs (15 s to 1 h)"], 15, 18.75),
        (DOUBLED["decorrelated, clamped at 4,096 s"], 1, 3),
        (GROWING["even (seq), Sidekiq's mean curve"], 15, 53),
    ],
)
def test_the_first_wait_fills_its_window(scheme: Scheme, low: float, high: float) -> None:
    first = scheme.instants(5_000, 1)[0] / 1_000
    assert low <= first.min() < low + (high - low) * 0.01
    assert high - (high - low) * 0.01 < first.max() <= high


def test_sidekiq_8_rolls_whole_seconds() -> None:
    first = GROWING["Sidekiq 8, a third of the jitter"].instants(500, 1)[0]
    assert set((first % 1_000).tolist()) == {0}


def test_tiles_are_redrawn_but_never_left() -> None:
    # On Sidekiq's mean curve: C(1) = 15 s, C(2) = 15 + (30 + 46)/2 = 53 s, C(3) = 53 + (46 + 76)/2 = 114 s.
    instants = GROWING["instants drawn anew in tiles"].instants(5_000, 1)
    for row, (low, high) in zip(instants, ((15_000, 53_000), (53_000, 114_000)), strict=False):
        assert low <= row.min() < low + 200
        assert high - 200 < row.max() < high
    places = np.argsort(instants, axis=1)
    assert (places[0] != places[1]).any()


def test_every_scheme_can_be_drawn() -> None:
    for scheme in SCHEMES:
        instants = scheme.instants(8, 1)
        assert instants.shape == (scheme.retries, 8)
        assert (np.diff(instants, axis=0, prepend=0) >= 0).all()
