"""The buttons of the lab's page that copy, in the system's Chromium."""

from __future__ import annotations

from .browser import LabPage

HOLD_TIMERS = """() => {
  const plain = window.setTimeout;
  window.timers = [];
  window.setTimeout = (then, ms, ...rest) => ms === 1200 ? window.timers.push(then) : plain(then, ms, ...rest);
}"""
"""Keeps the timers from running out after which a button says again what it does."""

NO_CLIPBOARD = """() => {
  Object.defineProperty(navigator, "clipboard", { value: undefined });
  document.execCommand = name => { window.copied = [name, document.activeElement.value]; return true; };
}"""
"""As in a page that comes without TLS from another machine."""


def test_pressed_twice_a_button_says_again_what_it_does(lab: LabPage) -> None:
    page = lab.page
    page.evaluate(NO_CLIPBOARD)
    page.evaluate(HOLD_TIMERS)
    button = page.locator("#copy-link")
    for count in (1, 2):
        button.click()
        page.wait_for_function("count => window.timers.length === count", arg=count)
        assert button.inner_text() == "Copied"
    page.evaluate("window.timers.forEach(then => then())")
    assert button.inner_text() == "Copy link"


def test_without_a_clipboard_the_keyboard_stays_on_the_button(lab: LabPage) -> None:
    page = lab.page
    page.evaluate(NO_CLIPBOARD)
    button = page.locator("#copy-link")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('said').textContent === 'Copied'")
    assert page.evaluate("window.copied") == ["copy", page.url]
    assert page.evaluate("document.activeElement.id") == "copy-link"
    assert page.locator("textarea").count() == 0
