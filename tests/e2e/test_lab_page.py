"""The lab's page as people use it, in the system's Chromium: by mouse, by keyboard, in the dark, on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anew.lab.charts.classics import LINKS

from .browser import LabPage, box, drag, slider, sync_api

PHONE = {"width": 390, "height": 844}


def test_a_slider_moves_the_curve(lab: LabPage) -> None:
    before, pixels = lab.data(), lab.canvas("#plots-curve")
    after = drag(lab, "b.base", 0.9)
    assert before["curves"][1]["nominal"][0] == 15_000  # Sidekiq's first wait
    assert after["curves"][1]["nominal"][0] > 60_000
    assert after["curves"][0] == before["curves"][0]
    assert lab.canvas("#plots-curve") != pixels
    assert "b.base=" in lab.address()


def test_the_picture_follows_the_slider_at_once(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?jobs=10000")
    took = []
    lab.page.locator(slider("a.spread")).focus()
    for _ in range(5):
        before = lab.drawn()
        lab.page.keyboard.press("ArrowLeft")
        lab.await_change(before)
        took.append(lab.page.evaluate("performance.getEntriesByName('lab:update').at(-1).duration"))
    # 100 ms on a quiet machine; a busy one must not make this test wrong.
    assert sorted(took)[2] < 1_000


def test_linear_axes(lab: LabPage) -> None:
    before, pixels = lab.drawn(), lab.canvas("#plots-load")
    assert lab.data()["log"]
    lab.page.get_by_label("linear").check()
    after = lab.await_change(before)
    assert not after["log"]
    assert after["edges"][0] == 0
    assert lab.canvas("#plots-load") != pixels
    assert "scale=linear" in lab.address()


def test_up_to_four_policies_share_the_page(lab: LabPage) -> None:
    for count in (3, 4):
        before = lab.drawn()
        lab.page.get_by_role("button", name="Add a policy to compare").click()
        data = lab.await_change(before)
        assert len(data["curves"]) == len(data["herds"]) == len(data["load"]["lines"]) == count
        lab.page.locator(f"#plots-herd canvas >> nth={count - 1}").wait_for()
    assert lab.page.get_by_role("button", name="Add a policy to compare").count() == 0
    before = lab.drawn()
    lab.page.get_by_role("button", name="Remove policy B").click()
    assert [line["key"] for line in lab.await_change(before)["curves"]] == ["a", "c", "d"]


def test_another_preset_has_other_parameters(lab: LabPage) -> None:
    assert lab.page.locator(box("b.faces")).count() == 1
    before = lab.drawn()
    lab.page.get_by_label("Policy B", exact=True).select_option("exponential")
    assert lab.await_change(before)["curves"][1]["nominal"][:3] == [300_000, 420_000, 660_000]
    lab.page.locator(box("b.faces")).wait_for(state="detached")
    assert lab.set(box("b.factor"), "3")["curves"][1]["nominal"][1] == 540_000  # 3 min + 2 min * 3


def test_every_part_of_a_policy_can_be_changed(lab: LabPage) -> None:
    before = lab.drawn()
    lab.page.get_by_label("Policy B", exact=True).select_option("json")
    lab.await_change(before)
    lab.page.locator(box("b.curve")).wait_for()
    before = lab.drawn()
    lab.page.locator(box("b.curve")).select_option("constant")
    assert lab.await_change(before)["curves"][1]["nominal"][:2] == [300_000, 300_000]
    lab.page.locator(box("b.curve.wait")).wait_for()
    before = lab.drawn()
    lab.page.locator(box("b.json")).fill('{"curve": {"table": ["10s", "1m"]}, "limit": 3}')
    lab.page.locator(box("b.json")).press("Tab")
    assert lab.await_change(before)["curves"][1]["nominal"] == [10_000, 60_000, 60_000]


def test_what_was_opened_stays_open(lab: LabPage) -> None:
    page = lab.page
    page.get_by_text("sidekiq (up to 6.2.1): every retry as a table").click()
    page.get_by_text("sidekiq (up to 6.2.1): to copy").click()
    page.locator("#card-a .more > summary").click()
    lab.set(box("b.base"), "33s")
    before = lab.drawn()
    page.get_by_role("button", name="Add a policy to compare").click()
    lab.await_change(before)
    opened = "[...document.querySelectorAll('details:not(.parameters, .ask)')].filter(e => e.open).map(e => e.className)"
    assert page.evaluate(opened) == ["more", "numbers policy-b", "copies policy-b"]


def test_what_was_folded_stays_folded_on_a_phone(tabs: Callable[..., LabPage]) -> None:
    lab = tabs(has_touch=True)
    lab.page.set_viewport_size(PHONE)
    lab.open()
    lab.page.locator("#card-b .parameters > summary").tap()
    before = lab.drawn()
    lab.page.get_by_role("button", name="Add a policy to compare").tap()
    lab.await_change(before)
    opened = (
        "[...document.querySelectorAll('.parameters')].filter(e => e.open).map(e => e.closest('.card').id)"
    )
    assert lab.page.evaluate(opened) == ["card-b"]


def test_a_new_policy_is_brought_into_sight(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&b=sidekiq&c=zizq")
    before = lab.drawn()
    lab.page.get_by_role("button", name="Add a policy to compare").click()
    lab.await_change(before)
    sync_api.expect(lab.page.locator("#choice-d")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("size", [(1280, 800), (1440, 900), (1920, 1080)])
def test_what_matters_is_within_sight(tabs: Callable[..., LabPage], size: tuple[int, int]) -> None:
    """What can be asked for, what becomes of it, the herd, the outage to play with and the first policy: without scrolling."""
    lab = tabs()
    lab.page.set_viewport_size({"width": size[0], "height": size[1]})
    lab.open("?a=even&b=sidekiq&outage=1h")
    wanted = (
        "#intent",
        "#verdict table",
        "#plots-herd canvas",
        slider("outage"),
        slider("capacity"),
        "#add",
        "#choice-a",
    )
    for place in wanted:
        room = lab.page.locator(place).first.bounding_box()
        assert room is not None
        assert room["y"] + room["height"] <= size[1], place


def test_what_does_not_fit_is_told_beside_its_field(lab: LabPage) -> None:
    lab.page.locator(box("b.base")).fill("15 parsecs")
    error = lab.page.locator('[data-error="b.base"]')
    error.filter(has_text="parsecs").wait_for()
    assert "expected a duration" in (error.text_content() or "")
    assert lab.page.locator(box("b.base")).get_attribute("aria-invalid") == "true"
    assert lab.page.locator(box("b.base")).input_value() == "15 parsecs"
    assert lab.page.locator("#results.kept").count() == 1
    lab.page.locator(box("b.base")).fill("20s")
    lab.page.wait_for_function("() => document.querySelector('[data-error=\"b.base\"]').textContent === ''")
    assert lab.data()["curves"][1]["nominal"][0] == 20_000


def test_a_policy_without_the_one_retry_says_so_in_the_place_of_its_waits(
    tabs: Callable[..., LabPage],
) -> None:
    lab = tabs().open("?a=even&a.limit=7&b=even&retry=10")
    panels = lab.page.locator("#plots-waits .facet")
    assert [panels.nth(place).locator("canvas").count() for place in (0, 1)] == [0, 1]
    assert "its last retry is 7" in panels.nth(0).inner_text()
    lab.set(box("retry"), "7")
    assert panels.locator("canvas").count() == 2
    lab.set(box("retry"), "8")
    assert panels.locator("canvas").count() == 1


def test_where_nothing_fits_no_picture_says_that_there_is_no_retry(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=even&jobs=none")
    assert lab.page.locator("#plots-load").inner_text() == ""


def test_wrong_json_is_marked_and_the_keyboard_keeps_its_place(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open("?a=json")
    text = lab.page.locator(box("a.json"))
    picture = lab.canvas("#plots-waits")
    below = "document.getElementById('figure-waits').getBoundingClientRect().top + scrollY"
    place = lab.page.evaluate(below)
    text.fill('{"curve": {"exponentail": {"base": "1s"}}}')
    before = lab.drawn()
    text.press("Tab")  # to controls that cannot be used now, as they belong to other JSON
    lab.await_change(before)
    assert lab.canvas("#plots-waits") == picture
    assert lab.page.evaluate(below) == place
    assert "Line: the mean" in lab.page.locator("#words-curve").inner_text()
    assert lab.page.locator("#card-a [inert]").count() == 1
    assert text.get_attribute("aria-invalid") == "true"
    assert "exponentail" in lab.page.locator('[data-error="a"]').inner_text()
    assert lab.page.evaluate("document.activeElement.name") == "a.json"
    text.fill('{"curve": {"exponential": {"base": "1s"}}, "limit": 3}')
    before = lab.drawn()
    text.press("Tab")
    assert lab.await_change(before)["curves"][0]["nominal"] == [1_000, 2_000, 4_000]
    assert text.get_attribute("aria-invalid") is None
    assert lab.page.locator("#card-a [inert]").count() == 0


def test_by_keyboard_policies_come_and_go(lab: LabPage) -> None:
    """The focus stays where it was, or near to it: on the button, then on the last policy, then on the last again."""
    lab.page.get_by_role("button", name="Add a policy to compare").focus()
    for count, focused in ((3, "add"), (4, "choice-d"), (3, "choice-c")):
        if focused == "choice-c":
            lab.page.get_by_role("button", name="Remove policy D").focus()
        before = lab.drawn()
        lab.page.keyboard.press("Enter")
        assert len(lab.await_change(before)["curves"]) == count
        assert lab.page.evaluate("document.activeElement.id") == focused


def test_a_slider_reaches_no_bound_at_its_end(lab: LabPage) -> None:
    track = lab.page.locator(slider("b.cap"))
    track.focus()
    assert track.get_attribute("aria-valuetext") == "none"
    before = lab.drawn()
    lab.page.keyboard.press("ArrowLeft")
    lab.await_change(before)
    assert lab.page.locator(box("b.cap")).input_value() == "365d"
    before = lab.drawn()
    lab.page.keyboard.press("End")
    lab.await_change(before)
    assert lab.page.locator(box("b.cap")).input_value() == ""
    assert "b.cap" not in lab.address()


def test_enter_in_a_box_shows_the_picture_and_nothing_else(lab: LabPage) -> None:
    before = lab.drawn()
    lab.page.locator(box("b.base")).fill("30s")
    lab.page.locator(box("b.base")).press("Enter")
    assert [line["nominal"][0] for line in lab.await_change(before)["curves"]] == [30_000, 30_000]


def test_light_and_dark(tabs: Callable[..., LabPage]) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    night = tabs(color_scheme="dark").open()
    day = tabs(color_scheme="light").open()
    dark, light = night.page.evaluate(ground), day.page.evaluate(ground)
    assert dark != light
    pixels = day.canvas("#plots-herd")
    day.page.get_by_role("button", name="Dark").click()
    assert day.page.evaluate(ground) == dark
    assert day.canvas("#plots-herd") != pixels
    day.open()  # it is remembered
    assert day.page.evaluate(ground) == dark
    day.page.get_by_role("button", name="Light").click()
    assert day.page.evaluate(ground) == light
    badges = "getComputedStyle(document.querySelector('.legend .badge')).backgroundColor"
    assert (day.page.evaluate(badges), night.page.evaluate(badges)) == (  # the first of either palette
        "rgb(0, 114, 178)",
        "rgb(58, 160, 224)",
    )


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?a=even&b=sidekiq&c=zizq&d=aws_full&outage=10m&capacity=20",
        "?a=json&jobs=x&unknown_=" + "long" * 40,
        LINKS["zaqar"][0].removeprefix("/lab"),
        LINKS["herd"][0].removeprefix("/lab"),
    ],
)
def test_a_phone_scrolls_in_one_direction_only(tabs: Callable[..., LabPage], query: str) -> None:
    lab = tabs(has_touch=True, is_mobile=False)
    lab.page.set_viewport_size(PHONE)
    lab.open(query)
    for part in lab.page.locator("details").all():
        part.evaluate("part => part.open = true")
    wide, window = lab.width()
    assert wide <= window == 390


def test_by_keyboard_alone(lab: LabPage) -> None:
    """Tab reaches everything that can be used, in order, and shows where it is."""
    wanted = lab.page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, textarea, summary")]
        .filter(e => e.checkVisibility({visibilityProperty: true}) && e.type !== "hidden" && !e.ariaHidden)
        .filter(e => e.type !== "radio" || e.checked).length"""
    )
    reached = set()
    lab.page.evaluate("document.body.focus()")
    for _ in range(wanted + 5):
        lab.page.keyboard.press("Tab")
        here = lab.page.evaluate(
            """() => { const e = document.activeElement; if (e === document.body) return null;
            if (getComputedStyle(e).outlineStyle === "none") throw new Error("no visible focus: " + e.outerHTML);
            return [...document.querySelectorAll("*")].indexOf(e); }"""
        )
        if here is None:
            break
        reached.add(here)
    assert len(reached) >= wanted
    lab.page.locator("#choice-b").focus()
    before = lab.drawn()
    lab.page.keyboard.press("ArrowDown")
    lab.page.keyboard.press("Enter")
    assert lab.await_change(before)["curves"][1]["label"] != "B sidekiq (up to 6.2.1)"


def test_pictures_have_words(lab: LabPage) -> None:
    for canvas in lab.page.locator(".plot").all():
        assert canvas.get_attribute("role") == "img"
        assert canvas.get_attribute("aria-label")
        described = canvas.get_attribute("aria-describedby")
        assert lab.page.locator(f"#{described}").inner_text().strip()
    words = lab.page.locator("#results").inner_text().replace("\u00a0", " ")
    assert "15 s to 53 s" in words  # even's published first wait
    assert "no call in 94 % of the hours" in words


def test_equal_waits_of_a_year_are_drawn_at_once(tabs: Callable[..., LabPage]) -> None:
    """Their histogram is two milliseconds wide and 365 days away from zero: an axis of few ticks all the same."""
    for scale in ("log", "linear"):
        lab = tabs()
        lab.page.set_default_timeout(10_000)
        lab.open(f'?a=json&a.json={{"curve":{{"constant":"365d"}},"limit":25}}&scale={scale}')
        assert lab.page.locator("#plots-waits canvas").count() == 1


def test_hostile_text_stays_text(tabs: Callable[..., LabPage]) -> None:
    lab = tabs().open(
        "?a=%3Cimg%20src=x%20onerror=alert(1)%3E&b=json&b.json=%3C/script%3E%3Cscript%3Ealert(2)%3C/script%3E"
        "&jobs=%22%3E%3Csvg%20onload=alert(3)%3E&%3Cb%3E=1"
    )
    assert lab.page.locator("img, svg, b:not(.brand b)").count() == 0
    assert "<img src=x onerror=alert(1)>" in lab.page.locator('[data-error="a"]').inner_text()


def test_without_scripts_the_words_and_tables_are_there(tabs: Callable[..., LabPage]) -> None:
    lab = tabs(java_script_enabled=False)
    lab.page.goto(f"{lab.base}/lab?a=zizq")
    text = lab.page.locator("#results").inner_text().replace("\u00a0", " ")
    assert "16 s to 46 s" in text
    lab.page.get_by_text("every retry as a table").click()
    assert "10 h" not in lab.page.locator("#tables td").first.inner_text()
    lab.page.locator(box("a.base")).fill("1m")
    lab.page.get_by_role("button", name="Show").click()
    words = lab.page.locator("#results").inner_text().replace("\u00a0", " ")
    assert "1 min 1 s to 1 min 31 s" in words


def test_a_form_that_cannot_say_it_says_so(lab: LabPage) -> None:
    lab.page.get_by_text("sidekiq (up to 6.2.1): to copy").click()
    shown = lab.page.locator("#forms .policy-b").inner_text()
    assert "Zizq cannot express this policy" in shown
    assert '{"retry": 25}' in shown
    assert 'preset("sidekiq")' in shown


def test_the_last_chart_stays(lab: LabPage) -> None:
    """No chart at all would stand for all of them."""
    page = lab.page
    for name in ("waits", "retries", "load"):
        before = lab.drawn()
        page.get_by_label(name, exact=True).uncheck()
        lab.await_change(before)
    last = page.get_by_label("one retry", exact=True)
    last.click()
    assert last.is_checked()
    assert page.locator(".charts figure:visible").count() == 1
