"""Classic pictures, held to the numbers of those who drew them first."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.charts.classics import HERD, herd, zaqar
from anew.lab.charts.data import curve_band
from anew.lab.charts.pictures import Band, Dots, Picture
from anew.lab.named import Named


def band_of(picture: Picture) -> Band:
    (panel,) = picture.panels
    assert isinstance(panel, Band)
    return panel


def herds(picture: Picture) -> dict[str, Dots]:
    panels = [panel for panel in picture.panels if isinstance(panel, Dots)]
    assert len(panels) == len(picture.panels)
    return {panel.label: panel for panel in panels}


def test_zizqs_band_is_the_published_one() -> None:
    # Zizq 0.6.1, seconds, retries 1 to 10; its whole window is 2,154,020 to 2,163,770 s.
    published = [
        "16-46",
        "31-91",
        "96-186",
        "271-391",
        "640-790",
        "1311-1491",
        "2416-2626",
        "4111-4351",
        "6576-6846",
        "10015-10315",
    ]
    points = curve_band([Named("zizq", Policy.from_json("zizq"))], 25).lines[0].points
    spans = [f"{(p.earliest_ms or 0) // 1000}-{(p.latest_ms or 0) // 1000}" for p in points]
    assert spans[:10] == published
    assert sum(p.earliest_ms or 0 for p in points) == 2_154_020_000
    assert sum(p.latest_ms or 0 for p in points) == 2_163_770_000


ZAQAR = {
    "linear": [5, 33.333, 61.667, 90, 118.333, 146.667, 175, 203.333, 231.667, 260],
    "arithmetic": [5, 10.667, 22, 39, 61.667, 90, 124, 163.667, 209, 260],
    "geometric": [5, 7.756, 12.031, 18.663, 28.949, 44.906, 69.658, 108.054, 167.612, 260],
    "exponential, base 2": [5, 5.499, 6.497, 8.493, 12.485, 20.470, 36.438, 68.376, 132.250, 260],
}


def test_the_four_functions_between_5_and_260_s() -> None:
    lines = band_of(zaqar()).lines
    assert [line.label for line in lines] == list(ZAQAR)
    for line in lines:
        waits = [p.nominal_ms for p in line.points]
        assert waits == pytest.approx([1_000 * wait for wait in ZAQAR[line.label]], abs=1.0)


# Earliest and latest wait of each retry in seconds, "Visualization of backoff functions", n from 1.
ORIGINAL = {
    "constant": [(300, 300)] * 5,
    "exponential": [(300, 300), (420, 420), (660, 660), (1140, 1140), (2100, 2100)],
    "sidekiq": [(16, 76), (31, 121), (96, 216), (271, 421), (640, 820)],
    "buckets": [(1, 27), (8, 64), (27, 125), (64, 216), (125, 343)],
}


def test_the_herds_wait_as_the_original_chart_has_it() -> None:
    found = herds(herd())
    assert list(found) == list(HERD)
    for label, spans in ORIGINAL.items():
        rows = found[label].instants_ms
        assert len(rows) == 100
        for place, (low, high) in enumerate(spans):
            waits = [row[place] - (row[place - 1] if place else 0) for row in rows]
            assert low * 1_000 <= min(waits)
            assert max(waits) <= high * 1_000
            # A hundred draws that are uniform do not leave a tenth of their window free at either end.
            assert min(waits) <= (low + 0.1 * (high - low)) * 1_000
            assert max(waits) >= (high - 0.1 * (high - low)) * 1_000


# Mean waits: 30 + 15k + k^4, and (k^3 + (k + 2)^3) / 2.
MEANS = {
    "constant": [300] * 5,
    "exponential": [300, 420, 660, 1140, 2100],
    "sidekiq": [46, 76, 156, 346, 730],
    "buckets": [14, 36, 76, 140, 234],
}


@pytest.mark.parametrize("label", MEANS)
def test_even_stands_on_the_same_mean_waits(label: str) -> None:
    found = herds(herd())
    own = next(text for text in found if text.startswith(f"even on {label}"))
    # The k-th retry of a job with the number p comes at the integral of the mean waits up to k + p: within one gap
    # of their sum, and the herd's middle within a tenth.
    total = 1_000 * sum(MEANS[label])
    last = [row[-1] for row in found[own].instants_ms]
    assert total - 1_000 * MEANS[label][-1] < min(last) < total < max(last)
    assert mean(last) == pytest.approx(total, rel=0.25)


def test_the_horizons_of_the_original_setting() -> None:
    found = herds(herd())
    last = {label: max(row[-1] for row in panel.instants_ms) / 1_000 for label, panel in found.items()}
    assert last["constant"] == 1_500
    assert last["exponential"] == 4_620
    # Published means over 200 herds; the highest number for life of a hundred jobs lies within 0.02 of 1.
    assert last["even on constant"] == pytest.approx(1_648, abs=3)
    assert last["even on exponential"] == pytest.approx(6_609, rel=0.02)
    assert last["even on sidekiq's mean"] == pytest.approx(2_055, rel=0.02)
    assert last["even on buckets' mean"] == pytest.approx(680, rel=0.02)
    assert last["sidekiq"] == pytest.approx(1_548, rel=0.05)
    assert last["buckets"] == pytest.approx(691, rel=0.1)


def busiest_ten_seconds(panel: Dots) -> int:
    bins: dict[int, int] = {}
    for row in panel.instants_ms:
        for ms in row:
            bins[ms // 10_000] = bins.get(ms // 10_000, 0) + 1
    return max(bins.values())


def test_even_flattens_the_peaks_of_the_original_setting() -> None:
    found = herds(herd())
    # Published: 100, 100, 23.0 and 44.5 calls in 10 s; even 4.0, 4.0, 18.8 and 43.7.
    assert busiest_ten_seconds(found["constant"]) == busiest_ten_seconds(found["exponential"]) == 100
    assert busiest_ten_seconds(found["even on constant"]) <= 5
    assert busiest_ten_seconds(found["even on exponential"]) <= 5
    assert busiest_ten_seconds(found["even on sidekiq's mean"]) == pytest.approx(18.8, abs=3)
    assert busiest_ten_seconds(found["sidekiq"]) == pytest.approx(23.0, abs=7)
    assert busiest_ten_seconds(found["buckets"]) == pytest.approx(44.5, abs=10)


def test_even_on_a_constant_curve_deviates_at_the_first_wait_only() -> None:
    for row in herds(herd())["even on constant"].instants_ms:
        # Instants are cut to whole milliseconds one wait at a time.
        assert {after - before for before, after in pairwise(row)} == {300_000}


def test_two_that_are_compared_share_an_axis() -> None:
    ends = [panel.end_ms for panel in herds(herd()).values()]
    assert ends[::2] == ends[1::2]


def test_herds_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(InvalidInput, match="jobs: 0 is not valid; expected a whole number from 1"):
        herd(0)
    with pytest.raises(InvalidInput, match="retries: 0 is not valid; expected a whole number from 1"):
        herd(retries=0)
