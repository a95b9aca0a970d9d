"""Edits beside a Back that is slow, refused, or never answered, in the system's Chromium: nothing vanishes without a word."""

from __future__ import annotations

from typing import Any

import pytest

from .browser import DRAWN, LabPage, box, hold_first

STATES = "**/lab*"
"""What asks for a state; the first one of all has no query."""

BUSY = '<p id="notice" class="notice" role="alert" hx-swap-oob="true">busy</p>'
AWAY = "The server does not answer; the picture is still the previous one."


def choose(lab: LabPage, label: str) -> None:
    """Check a button and wait for the picture."""
    before = lab.drawn()
    lab.page.get_by_label(label, exact=True).check()
    lab.await_change(before)


def await_address(lab: LabPage, *pairs: str) -> Any:
    """Wait until a state whose address has these pairs is drawn; give its data."""
    lab.page.wait_for_function(f"pairs => pairs.every(pair => {DRAWN}.includes(pair))", arg=list(pairs))
    return lab.data()


def await_restored(lab: LabPage) -> None:
    """Wait until a state that was gone back to is drawn."""
    lab.page.wait_for_function("() => JSON.parse(document.getElementById('data').textContent).restored")


def type_jobs(lab: LabPage, jobs: str) -> None:
    """Type into the box and wait until the page asks for it, or would if it did not wait for something else."""
    lab.page.evaluate(
        "() => addEventListener('htmx:config:request', () => { window.tried = true; }, { capture: true, once: true })"
    )
    lab.page.locator(box("jobs")).fill(jobs)
    lab.page.wait_for_function("() => window.tried")


def say_notice(lab: LabPage, text: str) -> None:
    """Wait until the page says this."""
    lab.page.wait_for_function("text => document.getElementById('notice').textContent === text", arg=text)


def forget(lab: LabPage, what: str) -> None:
    """Take back that the browser complained of what the test did."""
    assert lab.wrong
    assert all(what in line for line in lab.wrong), lab.wrong
    lab.wrong.clear()


@pytest.mark.parametrize("asked", [False, True])
def test_what_is_typed_before_the_state_gone_back_to_is_here_stays(lab: LabPage, asked: bool) -> None:
    """Whether its answer comes before the box is read, or after."""
    page = lab.page
    choose(lab, "linear")
    held = hold_first(page, page.go_back, STATES)
    if asked:
        type_jobs(lab, "777")
    else:
        page.locator(box("jobs")).fill("777")
    held[0].continue_()
    data = await_address(lab, "jobs=777")
    assert (data["log"], data["jobs"]) == (True, 777)
    assert page.locator(box("jobs")).input_value() == "777"
    assert page.get_by_label("log", exact=True).is_checked()
    assert "scale=linear" not in lab.address()


def test_what_is_chosen_before_the_state_gone_back_to_is_here_stays(lab: LabPage) -> None:
    """A box of its own, a list, and a button that brings a policy: beside what has been gone back to."""
    page = lab.page
    choose(lab, "linear")
    begin = page.evaluate("history.length")
    held = hold_first(page, page.go_back, STATES)
    page.get_by_label("load", exact=True).uncheck()
    page.locator("#choice-a").select_option("celery")
    page.get_by_role("button", name="Add a policy to compare").click()
    held[0].continue_()
    page.wait_for_function("() => document.querySelectorAll('.card').length === 3")
    data = await_address(lab, "a=celery")
    assert data["log"]
    assert data["charts"] == {"curve": True, "herd": True, "load": False, "waits": True}
    assert [line["key"] for line in data["curves"]] == ["a", "b", "c"]
    assert data["curves"][0]["label"] == "A celery"
    assert not page.get_by_label("load", exact=True).is_checked()
    assert (
        page.evaluate("history.length") == begin
    )  # an entry behind the first one, in place of the linear one
    before = lab.drawn()
    page.go_back()
    assert [line["key"] for line in lab.await_change(before)["curves"]] == ["a", "b"]


def test_who_goes_back_once_more_leaves_the_edit_behind(lab: LabPage) -> None:
    page = lab.page
    for label in ("linear", "all as heat"):
        choose(lab, label)
    held = hold_first(page, page.go_back, STATES)
    type_jobs(lab, "777")
    page.go_back()
    await_restored(lab)
    data = lab.data()
    assert (data["log"], data["herdAs"], data["jobs"]) == (True, "dots", 1000)
    assert page.locator(box("jobs")).input_value() == "1000"
    assert page.url == f"{lab.base}/lab"
    assert len(held) == 1


def test_what_was_typed_beside_a_refusal_comes_with_that_state(lab: LabPage) -> None:
    """The next answer brings the state gone back to; what was typed while it was asked for is newer than that."""
    page = lab.page
    choose(lab, "linear")
    held = hold_first(page, page.go_back, STATES)
    type_jobs(lab, "777")
    held[0].fulfill(status=503, content_type="text/html", body=BUSY)
    say_notice(lab, "busy")
    assert page.locator(box("jobs")).input_value() == "777"
    page.locator(box("retry")).fill("3")
    data = await_address(lab, "jobs=777")
    assert (data["log"], data["jobs"], data["retry"]) == (True, 777, 3)
    assert page.locator(box("jobs")).input_value() == "777"
    assert page.locator("#notice").text_content() == ""
    forget(lab, "503")


@pytest.mark.parametrize("meanwhile", [False, True])
def test_an_edit_after_a_server_that_was_away_is_one_of_what_is_shown(lab: LabPage, meanwhile: bool) -> None:
    """And an entry of its own: the one that was gone back to keeps its state."""
    page = lab.page
    choose(lab, "linear")
    held = hold_first(page, page.go_back, STATES)
    if meanwhile:
        type_jobs(lab, "250")
    held[0].abort()
    if not meanwhile:
        say_notice(lab, AWAY)
        page.locator(box("jobs")).fill("250")
    data = await_address(lab, "jobs=250")
    assert (data["log"], data["jobs"]) == (False, 250)
    assert page.locator(box("jobs")).input_value() == "250"
    assert page.locator("#notice").text_content() == ""
    assert {"scale=linear", "jobs=250"} <= set(lab.address().partition("?")[2].split("&"))
    page.go_back()
    await_restored(lab)
    assert (lab.data()["log"], lab.data()["jobs"]) == (True, 1000)
    assert page.url == f"{lab.base}/lab"
    assert any("ERR_FAILED" in line for line in lab.wrong)
    forget(lab, "Failed to")
