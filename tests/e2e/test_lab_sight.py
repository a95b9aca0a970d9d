"""What can be seen on the lab's page in the system's Chromium: mistakes, spans, few retries, chosen colours, calm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from .browser import LabPage, box, slider

HOURLY = '?a=json&a.json={"curve":{"constant":"1h"},"jitter":"none","limit":10}'
STANDS = '[data-stands="until"]'


def type_json(lab: LabPage, text: str) -> Any:
    """Type a policy and leave its box; give the new data."""
    before = lab.drawn()
    lab.page.locator(box("a.json")).fill(text)
    lab.page.locator(box("a.json")).press("Tab")
    return lab.await_change(before)


def test_a_mistake_in_one_policy_keeps_the_picture_until_it_is_mended(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=json&b=sidekiq&jobs=100")
    page = lab.page
    type_json(lab, '{"curve":{"constant":"7m"},"limit":3}')
    pixels = lab.canvas("#plots-curve")
    verdict = page.locator("#verdict").inner_text()
    page.locator(box("a.json")).fill('{"curve":{"const')
    page.locator(box("a.json")).press("Tab")
    error = page.locator('[data-error="a"]', has_text="still the previous one")
    error.wait_for()
    assert "is not JSON" in error.inner_text()
    assert lab.canvas("#plots-curve") == pixels
    assert page.locator("#verdict").inner_text() == verdict
    mended = type_json(lab, '{"curve":{"constant":"8m"},"limit":3}')
    assert mended["curves"][0]["nominal"] == [480_000] * 3
    assert not page.locator(".kept").count()


def test_the_span_of_a_look_is_said_in_numbers(tabs: Callable[..., LabPage]) -> None:
    """Ten hourly retries; after an outage of 90 min the call at 2 h is the last."""
    lab = tabs().open(HOURLY)
    page = lab.page
    page.locator("#scenario .more > summary").click()
    said = page.locator(STANDS)
    assert said.inner_text() == "all: 0 to 10 h"
    assert said.get_attribute("id") in (page.locator(box("until")).get_attribute("aria-describedby") or "")
    lab.set(box("outage"), "90m")
    assert said.inner_text() == "all: 0 to 2 h"
    lab.set(box("until"), "3h")
    assert said.inner_text() == "all: 0 to 2 h"
    lab.set(box("outage"), "")
    assert said.inner_text() == "0 to 3 h"
    lab.set(box("a.limit"), "0")
    assert said.inner_text() == "nothing: there is no retry"


def test_no_retry_is_said_and_not_drawn(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&a.limit=0")
    assert lab.page.locator("#plots-herd .facet > :last-child").inner_text() == "no retry"
    assert "no retry, and so no call" in lab.page.locator("#plots-load").inner_text()
    assert len(lab.set(box("a.limit"), "2")["herds"][0]["dots"][0]) == 2
    assert lab.page.locator("#plots-load canvas").is_visible()


def test_one_wait_has_its_range(tabs: Callable[..., LabPage]) -> None:
    """A band of one retry has no width: from 15 s to 45 s there is colour all the same."""
    lab = tabs().open('?a=json&a.json={"curve":{"constant":"15s"},"jitter":{"add":"30s"},"limit":1}')
    coloured = """canvas => { const pen = canvas.getContext("2d"), { width, height } = canvas;
        const middle = pen.getImageData(Math.round(width / 2) - 60, 0, 120, height).data;
        let most = 0;
        for (let row = 0; row < height; row += 1) for (let place = 0; place < 120; place += 1) {
            const at = 4 * (120 * row + place);
            if (middle[at + 3] > 0 && middle[at + 2] - middle[at] > 60) { most += 1; break; }
        }
        return most / height; }"""
    assert lab.page.locator("#plots-curve canvas").evaluate(coloured) > 0.2


def test_a_number_at_the_end_of_an_axis_is_not_cut(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&until=10m")
    ink_at_the_edge = """canvas => canvas.getContext("2d").getImageData(canvas.width - 3, 0, 3, canvas.height).data
        .reduce((sum, value) => sum + value, 0)"""
    for chart in ("#plots-load canvas", "#plots-herd canvas", "#plots-waits canvas"):
        assert lab.page.locator(chart).evaluate(ink_at_the_edge) == 0


def test_no_two_numbers_of_an_axis_read_the_same(lab: LabPage) -> None:
    """Half a minute apart, and above an hour: 6,600, 6,630 and 6,660 s. Two units were enough where they differ."""
    units = "document.querySelector('script[type=module]').src.replace('lab.js', 'units.js')"
    call = "[durations([6600000, 6630000, 6660000]), durations([0, 6600000, 8430000])]"
    assert lab.page.evaluate(f"import({units}).then(({{ durations }}) => {call})") == [
        ["1 h 50 min", "1 h 50 min 30 s", "1 h 51 min"],
        ["0", "1 h 50 min", "2 h 20 min"],
    ]


@pytest.mark.parametrize(
    ("call", "least", "most"),
    [
        ("durationTicks(15000, 53000, true, 8)", 2, 8),
        ("durationTicks(5400000, 8400000, true, 8)", 2, 8),
        ("durationTicks(1000, 1000.5, true, 8)", 0, 9),
        ("durationTicks(1000, 86400000, true, 3)", 2, 3),
        ("durationTicks(5500000, 8400000, false, 2.8)", 2, 3),  # 1 h 45 min, 2 h, 2 h 15 min
        ("durationTicks(3400000, 40800000, false, 2.1)", 2, 3),  # 3, 6, 9 h
        ("powerTicks(5, 40, 8)", 2, 6),
        ("powerTicks(20, 60, 8)", 2, 6),
        ("powerTicks(0.001, 5000, 8)", 2, 8),
    ],
)
def test_no_axis_is_without_numbers(lab: LabPage, call: str, least: int, most: int) -> None:
    name = call.partition("(")[0]
    units = "document.querySelector('script[type=module]').src.replace('lab.js', 'units.js')"
    ticks = lab.page.evaluate(f"import({units}).then(({{ {name} }}) => {call})")
    assert least <= len(ticks) <= most
    assert ticks == sorted(set(ticks))


def test_what_is_drawn_across_is_named(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&b=sidekiq")
    herd, load = lab.page.locator("#words-herd"), lab.page.locator("#words-load")
    assert "outage" not in herd.inner_text()
    lab.set(box("outage"), "1h")
    assert "outage of 1\u00a0h" in herd.inner_text()
    assert "Dotted" not in load.inner_text()
    lab.set(box("capacity"), "50")
    assert "Dotted" in load.inner_text()


def test_a_half_typed_number_keeps_the_picture(tabs: Callable[..., LabPage]) -> None:
    """An outage of "2" is none yet: neither the outage before nor none at all is drawn in its place."""
    lab = tabs().open("?a=even&b=sidekiq&outage=1h")
    pictures = [lab.canvas(place) for place in ("#plots-herd", "#plots-load")]
    verdict = lab.page.locator("#verdict").inner_text()
    lab.page.locator(box("outage")).fill("2")
    lab.page.locator('[data-error="outage"]', has_text="still the previous one").wait_for()
    assert [lab.canvas(place) for place in ("#plots-herd", "#plots-load")] == pictures
    assert lab.page.locator("#verdict").inner_text() == verdict
    assert lab.set(box("outage"), "2h")["load"]["outage"] == 7_200_000


def test_the_slider_of_the_one_retry_ends_at_the_last(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&a.limit=12&b=constant&b.limit=5")
    track = lab.page.locator(slider("retry"))
    assert track.get_attribute("max") == "12"
    lab.set(box("a.limit"), "7")
    assert lab.page.evaluate("document.querySelector('input.slide[data-name=retry]').max") == "7"


def test_on_a_phone_the_picture_comes_before_the_sliders(tabs: Callable[..., LabPage]) -> None:
    lab = tabs(has_touch=True)
    lab.page.set_viewport_size({"width": 390, "height": 844})
    lab.open("?a=even&b=sidekiq&outage=1h")
    places = [
        lab.page.locator(one).first.bounding_box()
        for one in ("#verdict", "#plots-herd canvas", ".view", "#form")
    ]
    tops = [place["y"] for place in places if place]
    assert tops == sorted(tops)
    herd = places[1]
    assert herd is not None
    assert herd["y"] + herd["height"] <= 844


def test_under_the_pointer_stand_the_peak_of_a_wave_and_its_mean(tabs: Callable[..., LabPage]) -> None:
    """1,000 jobs within 10 s after an hour, in a column of 136 s: 7.35 a second on average."""
    form = '{"curve":{"table":["1h","8h"]},"jitter":{"add":"10s"},"limit":2}'
    lab = tabs().open(f"?a=json&a.json={form}&jobs=1000&outage=2h&scale=linear")
    over = lab.page.locator("#plots-load .u-over")
    over.scroll_into_view_if_needed()
    place, edges = over.bounding_box(), lab.data()["load"]["edges"]
    assert place is not None
    # Near the beginning of the column, and near its end; a pointer stands on whole pixels, which are a third of a column.
    for at_s, on_pixel in ((3_550, math.ceil), (3_660, math.floor)):
        along = at_s * 1_000 / edges[-1]
        lab.page.mouse.move(on_pixel(place["x"] + along * place["width"]), place["y"] + 20)
        said = lab.page.locator("#plots-load .readout").inner_text()
        assert said.startswith("58 min 56 s to 1 h 1 min: at most ")
        assert said.endswith(" in a second, 7.35 on average")


def test_where_the_system_chooses_the_colours_policies_keep_theirs(tabs: Callable[..., LabPage]) -> None:
    lab = tabs(forced_colors="active").open("?a=even&b=sidekiq")
    grounds = lab.page.evaluate(
        "[...document.querySelectorAll('#plots-curve .badge')].map(e => getComputedStyle(e).backgroundColor)"
    )
    assert grounds == ["rgb(0, 114, 178)", "rgb(213, 94, 0)"]  # the first two of the palette


def test_nothing_jumps_while_a_slider_moves(tabs: Callable[..., LabPage]) -> None:
    """Texts change from three lines to one, or to four: sliders keep their places, and figures never move up."""
    lab = tabs().open("?a=even&b=sidekiq")
    sliders = """['input.slide[data-name="a.limit"]', '#card-b']
        .map(one => document.querySelector(one).getBoundingClientRect().top + scrollY)"""
    figures = "[...document.querySelectorAll('.facts tr, .chart')].map(e => e.getBoundingClientRect().top + scrollY)"
    lab.page.locator(slider("a.limit")).focus()
    begin, last = lab.page.evaluate(sliders), lab.page.evaluate(figures)
    for _ in range(24):
        before = lab.drawn()
        lab.page.keyboard.press("ArrowLeft")
        lab.await_change(before)
        assert lab.page.evaluate(sliders) == begin
        now = lab.page.evaluate(figures)
        assert all(place >= was - 0.5 for place, was in zip(now, last, strict=True))
        last = now


def test_escape_takes_back_what_was_typed(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&b=sidekiq")
    text = lab.page.locator(box("b.base"))
    text.focus()
    assert lab.set(box("b.base"), "33s")["curves"][1]["nominal"][0] == 33_000
    before = lab.drawn()
    text.press("Escape")
    assert text.input_value() == "15s"
    assert lab.await_change(before)["curves"][1]["nominal"][0] == 15_000
    assert lab.page.evaluate("document.activeElement.name") == "b.base"


def test_one_colour_is_one_retry_in_all_pictures(tabs: Callable[..., LabPage]) -> None:
    """The key beside the herds reaches to the 20th retry: the last of 5 has not that one's colour."""
    lab = tabs().open("?a=constant&a.limit=5&b=constant&b.limit=20&scale=linear")
    last_colour = """canvas => {
        const ramp = JSON.parse(document.getElementById("constants").textContent).colours.light;
        const wanted = ramp.at(-1).match(/[0-9a-f]{2}/gi).map(one => parseInt(one, 16));
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let found = 0;
        for (let at = 0; at < pixels.length; at += 4)
            if (pixels[at + 3] === 255 && wanted.every((one, place) => pixels[at + place] === one)) found += 1;
        return found; }"""
    few, many = (lab.page.locator("#plots-herd canvas").nth(place).evaluate(last_colour) for place in (0, 1))
    assert few == 0
    assert many > 100
