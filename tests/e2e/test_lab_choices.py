"""Choosing from the lists of the lab's page by keyboard, in the system's Chromium: letters typed ahead, arrow keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .browser import LabPage, box, hold_first, slider


@pytest.mark.parametrize(("name", "delay_ms"), [("celery", 40), ("sidekiq8", 120), ("tenacity_fixed", 250)])
def test_typing_a_name_chooses_it(tabs: Callable[..., LabPage], name: str, delay_ms: int) -> None:
    lab = tabs().open("?a=even&b=sidekiq&jobs=50")
    page = lab.page
    begin = page.evaluate("history.length")
    choice = page.locator("#choice-a")
    choice.focus()
    choice.evaluate("list => { window.list = list; }")
    before = lab.drawn()
    page.keyboard.type(name, delay=delay_ms)
    assert lab.await_change(before)["curves"][0]["label"] == f"A {name}"
    assert choice.input_value() == name
    assert page.evaluate("history.length") == begin + 1
    # It is the same list, and still the one that is used: the next letter goes to it.
    assert choice.evaluate("list => list === window.list && document.activeElement === list")
    before = lab.drawn()
    page.keyboard.press("ArrowDown")
    assert lab.await_change(before)["curves"][0]["label"] != f"A {name}"


def test_an_answer_in_the_middle_of_a_name_does_not_end_the_typing(tabs: Callable[..., LabPage]) -> None:
    """Whoever types slowly gets an answer to each letter, and the list stays the one that is typed into."""
    lab = tabs()
    page = lab.page

    def at_once(route: Any) -> None:
        answer = route.fetch()
        text = answer.text()
        assert "SETTLED_MS = 600" in text
        route.fulfill(response=answer, body=text.replace("SETTLED_MS = 600", "SETTLED_MS = 0"))

    page.route("**/choices.js", at_once)
    lab.open("?a=even&jobs=50")
    page.locator("#choice-a").focus()
    answers = 0
    for letter in "sidekiq8":
        before, was = lab.drawn(), page.locator("#choice-a").input_value()
        page.keyboard.press(letter)
        if page.locator("#choice-a").input_value() != was:
            lab.await_change(before)
            answers += 1
    assert answers >= 2
    assert lab.data()["curves"][0]["label"] == "A sidekiq8"
    assert page.locator("#choice-a").input_value() == "sidekiq8"


def test_an_answer_does_not_undo_what_has_been_typed_since(lab: LabPage) -> None:
    """Another preset comes, with other parameters, while somebody types on in its list and fills a box."""
    page = lab.page
    held = hold_first(page, lambda: page.locator("#choice-b").select_option("faktory"))
    page.locator(box("b.base")).fill("42s")
    page.locator("#choice-a").focus()
    page.keyboard.type("celery", delay=40)
    before = lab.drawn()
    held[0].continue_()
    # First the answer to what was asked first, then those to the rest.
    assert lab.await_change(before)["curves"][1]["label"] == "B faktory"
    page.wait_for_function("() => document.querySelector('.facts thead').textContent.includes('celery')")
    assert page.locator("#choice-a").input_value() == "celery"
    assert page.locator(box("b.base")).input_value() == "42s"
    assert lab.data()["curves"][1]["nominal"][0] == 42_000  # 42 s + (1-1)^4 s


def test_controls_of_a_policy_that_was_left_at_once_do_not_stay(lab: LabPage) -> None:
    """Away and back before the first answer: the controls on the page are those of what is chosen."""
    page = lab.page
    held = hold_first(page, lambda: page.locator("#choice-b").select_option("celery"))
    page.locator("#choice-b").select_option("sidekiq")
    held[0].continue_()
    page.wait_for_function("() => document.querySelector('[name=\"b.of\"]').value === 'sidekiq'")
    page.locator(box("b.faces")).wait_for()
    assert page.locator("#choice-b").input_value() == "sidekiq"


def test_another_preset_brings_its_own_numbers_into_the_boxes(lab: LabPage) -> None:
    """Also where both call a number alike and the new one's is what the old one's was at first: 15 s."""
    page = lab.page
    lab.set(box("b.base"), "33s")
    before = lab.drawn()
    page.locator("#choice-b").select_option("faktory")
    assert lab.await_change(before)["curves"][1]["nominal"][0] == 15_000
    assert page.locator(box("b.base")).input_value() == "15s"
    assert "b.base" not in lab.address()


def test_a_bare_curve_can_be_chosen_and_slid(lab: LabPage) -> None:
    page = lab.page
    before = lab.drawn()
    page.locator("#choice-b").select_option(label="power")
    # 15 s + (k-1)^4 s.
    assert lab.await_change(before)["curves"][1]["nominal"][:3] == [15_000, 16_000, 31_000]
    assert page.locator("#choice-b").input_value() == "json"
    page.locator(slider("b.curve.exponent")).focus()
    for _ in range(10):
        before = lab.drawn()
        page.keyboard.press("ArrowLeft")
        lab.await_change(before)
    assert page.locator(box("b.curve.exponent")).input_value() == "3"
    assert lab.data()["curves"][1]["nominal"][:3] == [15_000, 16_000, 23_000]


def test_a_changed_preset_says_what_it_comes_to_and_hides_what_does_nothing(lab: LabPage) -> None:
    page = lab.page
    summary = page.locator("#card-b .summary")
    unchanged = summary.inner_text()
    assert "25 retries in 20.4 days" in unchanged
    lab.set(box("b.limit"), "2")
    # 15 s + 0 to 29 s, then 16 s + twice 0 to 29 s.
    assert summary.inner_text() == "sidekiq (up to 6.2.1), changed."
    for jitter, shown in (("even", False), ("", True)):
        before = lab.drawn()
        page.locator(box("b.jitter")).select_option(jitter)
        lab.await_change(before)
        for name in ("b.grow", "b.faces"):
            assert page.locator(box(name)).is_visible() == page.locator(slider(name)).is_visible() == shown
        assert page.locator(box("b.base")).is_visible()
    lab.set(box("b.limit"), "25")
    assert summary.inner_text() == unchanged


def test_a_summary_is_large_enough_for_a_finger(tabs: Callable[..., LabPage]) -> None:
    lab = tabs(has_touch=True)
    lab.page.set_viewport_size({"width": 390, "height": 844})
    lab.open()
    rows = lab.page.evaluate(
        "[...document.querySelectorAll('summary')].map(e => e.getBoundingClientRect().height).filter(h => h > 0)"
    )
    assert len(rows) >= 7
    assert min(rows) >= 32
