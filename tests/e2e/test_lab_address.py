"""What the address of the lab's page keeps, in the system's Chromium: Back and Forward, links, and one entry a choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .browser import LabPage, box, slider, step_down

HOLD_TIMERS = """() => {
  const [plain, rewrite] = [window.setTimeout, history.replaceState.bind(history)];
  window.written = 0;
  window.rest = () => {};
  window.setTimeout = (then, ms, ...rest) => {
    if (ms !== 300) return plain(then, ms, ...rest);
    window.rest = then;
    return 0;
  };
  history.replaceState = (...given) => { window.written += 1; rewrite(...given); };
}"""
"""Keeps the timer that says that a slider rests from running out, until `rest` is called; counts the rewritings."""


def test_back_undoes_what_was_chosen_and_no_number(lab: LabPage) -> None:
    page = lab.page
    begin = page.evaluate("history.length")
    lab.set(box("b.base"), "33s")
    assert page.evaluate("history.length") == begin  # a number makes no entry
    charts = [f"#plots-{name}" for name in ("curve", "herd", "load", "waits")]
    pictures = [lab.canvas(chart) for chart in charts]
    before = lab.drawn()
    page.get_by_role("button", name="Add a policy to compare").click()
    lab.await_change(before)
    lab.set(box("jobs"), "500")
    before = lab.drawn()
    page.get_by_role("button", name="Remove policy A").click()
    assert len(lab.await_change(before)["curves"]) == 2
    assert page.evaluate("history.length") == begin + 2

    def travel(go: Callable[[], Any]) -> Any:
        before = lab.drawn()
        go()
        data = lab.await_change(before)
        assert data["url"] == lab.address().removeprefix(lab.base)
        return data

    assert [line["key"] for line in travel(page.go_back)["curves"]] == ["a", "b", "c"]
    assert page.locator(box("jobs")).input_value() == "500"
    assert [line["key"] for line in travel(page.go_back)["curves"]] == ["a", "b"]
    assert page.locator(box("jobs")).input_value() == "1000"
    assert page.locator(box("b.base")).input_value() == "33s"
    assert [lab.canvas(chart) for chart in charts] == pictures
    assert [line["key"] for line in travel(page.go_forward)["curves"]] == ["a", "b", "c"]
    assert [line["key"] for line in travel(page.go_forward)["curves"]] == ["b", "c"]
    assert page.locator("#choice-a").count() == 0
    assert page.evaluate("history.length") == begin + 2


def test_back_brings_the_view_back_too(lab: LabPage) -> None:
    page = lab.page
    for label, name in (("linear", "scale"), ("all as heat", "herd"), ("load", "chart")):
        before = lab.drawn()
        field = page.get_by_label(label, exact=True)
        field.set_checked(name != "chart")
        lab.await_change(before)
    assert not page.locator("#figure-load").is_visible()
    for _ in range(3):
        before = lab.drawn()
        page.go_back()
        lab.await_change(before)
    assert page.locator("#figure-load").is_visible()
    checked = page.evaluate(
        "[...document.querySelectorAll('.view :checked, .switch :checked')].map(e => e.value)"
    )
    assert checked == ["log", "curve", "herd", "load", "waits", "dots"]


def test_who_goes_back_in_the_middle_of_a_drag_is_back(lab: LabPage) -> None:
    page = lab.page
    before = lab.drawn()
    page.get_by_label("linear").check()
    lab.await_change(before)
    page.locator(slider("jobs")).focus()
    before = lab.drawn()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.go_back()
    assert lab.await_change(before)["log"]
    assert page.locator(box("jobs")).input_value() == "1000"
    assert page.url == f"{lab.base}/lab"
    assert page.locator("#notice").text_content() == ""


def test_a_link_brings_the_whole_state_back(tabs: Callable[..., LabPage]) -> None:
    lab = tabs(permissions=["clipboard-read", "clipboard-write"]).open("?a=zizq&b=json&retry=3")
    lab.set(box("a.base"), "42s")
    lab.set(box("jobs"), "250")
    before = lab.drawn()
    lab.page.get_by_label("all as heat").check()
    lab.await_change(before)
    before = lab.drawn()
    lab.page.get_by_label("load", exact=True).uncheck()
    data = lab.await_change(before)
    lab.page.get_by_role("button", name="Copy link").click()
    link = lab.page.evaluate("navigator.clipboard.readText()")
    other = tabs().open(link.removeprefix(f"{lab.base}/lab"))
    assert other.data() == data
    assert not other.page.locator("#figure-load").is_visible()
    assert other.page.locator(box("a.base")).input_value() == "42s"


def test_back_after_a_choice_and_numbers_returns_to_just_before_the_choice(lab: LabPage) -> None:
    """Numbers belong to the entry that they were changed in: those before the choice are kept, those since go with it."""
    page = lab.page
    lab.set(box("jobs"), "500")
    before = lab.drawn()
    page.get_by_role("button", name="Remove policy B").click()
    lab.await_change(before)
    step_down(lab, "a.spread", 3)
    lab.address()
    before = lab.drawn()
    page.go_back()
    assert [line["key"] for line in lab.await_change(before)["curves"]] == ["a", "b"]
    assert page.locator(box("a.spread")).input_value() == "1"
    assert page.locator(box("jobs")).input_value() == "500"
    before = lab.drawn()
    page.go_forward()
    assert [line["key"] for line in lab.await_change(before)["curves"]] == ["a"]
    assert page.locator(box("a.spread")).input_value() == "0.97"
    assert page.locator(box("jobs")).input_value() == "500"


def test_what_arrow_keys_pass_by_makes_no_entry(lab: LabPage) -> None:
    page = lab.page
    begin = page.evaluate("history.length")
    before = lab.drawn()
    page.locator(box("b.jitter")).focus()
    for _ in range(4):  # none, full, equal, even
        page.keyboard.press("ArrowDown")
    assert "b.jitter=even" in lab.await_change(before)["url"]
    assert page.evaluate("history.length") == begin + 1
    before = lab.drawn()
    page.get_by_label("100 jobs as dots").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert lab.await_change(before)["herdAs"] == "lines"
    assert page.evaluate("history.length") == begin + 2
    for shown, jitter in (("dots", "even"), ("dots", "")):
        before = lab.drawn()
        page.go_back()
        assert lab.await_change(before)["herdAs"] == shown
        assert page.locator(box("b.jitter")).input_value() == jitter


def test_who_leaves_a_list_has_chosen(lab: LabPage) -> None:
    """Without waiting for what might still be pressed; and by mouse, or another device than the keyboard, at once."""
    page = lab.page
    page.evaluate("window.setTimeout = () => 1")  # nothing ever settles
    for leave in (
        lambda: page.keyboard.press("Tab"),
        lambda: page.locator("#choice-b").select_option("celery"),
    ):
        before = lab.drawn()
        page.locator("#choice-a").focus()
        page.keyboard.press("ArrowDown")
        leave()
        assert lab.await_change(before)["curves"][0]["label"] != "A even"


def test_a_slider_that_is_dragged_rewrites_the_address_when_it_rests(lab: LabPage) -> None:
    """Browsers refuse to rewrite an address a hundred times in some seconds: at each step of a slider they would."""
    page = lab.page
    page.evaluate(HOLD_TIMERS)
    step_down(lab, "jobs", 3)
    assert page.url == f"{lab.base}/lab"
    page.evaluate("window.rest()")
    assert page.url == lab.base + lab.drawn()
    assert page.evaluate("window.written") == 1


def test_an_entry_that_is_left_keeps_what_was_slid_last(lab: LabPage) -> None:
    page = lab.page
    page.evaluate(HOLD_TIMERS)
    lab.set(box("jobs"), "500")
    before = lab.drawn()
    page.get_by_label("linear").check()
    lab.await_change(before)
    before = lab.drawn()
    page.go_back()
    assert lab.await_change(before)["jobs"] == 500


def test_what_waits_to_be_written_is_not_written_into_another_entry(lab: LabPage) -> None:
    page = lab.page
    before = lab.drawn()
    page.get_by_label("linear").check()
    lab.await_change(before)
    page.evaluate(HOLD_TIMERS)
    lab.set(box("jobs"), "500")
    before = lab.drawn()
    page.go_back()
    assert lab.await_change(before)["jobs"] == 1000
    assert page.url == f"{lab.base}/lab"
