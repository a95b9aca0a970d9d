"""The page as it is made: readable without scripts, safe against any text, and the same again from its own address."""

from __future__ import annotations

import re
from importlib.resources import files
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anew.backoff import PRESETS
from anew.lab.charts.classics import LINKS
from anew.lab.charts.colours import POLICY_COLOURS, POLICY_COLOURS_DARK
from anew.lab.charts.link import LETTERS
from anew.web.lab.controls import HINTS
from anew.web.lab.state import read_state

from .pages import page

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "</textarea><svg onload=alert(1)>",
    "'; alert(1); '",
    "{{ 7 * 7 }}{% include 'page.html' %}",
    "\x00\x1b[31m\u2028\u202e",
    "<!--",
    "&lt;b&gt;",
)

FIELDS = ("a", "a.base", "a.json", "a.of", "a.jitter", "jobs", "outage", "scale", "herd", "chart", "retry", "add", "remove",
          "capacity", "seed")  # fmt: skip


def test_the_page_is_readable_without_scripts() -> None:
    made = page("a=zizq")
    # 15 + 1^4 s, plus up to 30 s; and 15 + 25^4 s = 390,640 s = 4 d 12 h.
    assert "16\u00a0s to 46\u00a0s" in made.html
    assert "4 d 12 h" in made.html
    assert '<th scope="row">25</th>' in made.html


@pytest.mark.parametrize("query", ["", "a=json"])
def test_nothing_is_inline_and_nothing_comes_from_elsewhere(query: str) -> None:
    made = page(query)
    assert made.named("style") == []
    for element in made.elements:
        assert not [name for name in element.attributes if name.startswith("on") or name == "style"], element
        for name in ("src", "href", "action"):
            assert (element.attributes.get(name) or "/lab").startswith(("/lab", "/static/", "#results")), (
                element
            )
    inline = [one for one in made.named("script") if "src" not in one.attributes]
    assert {one.attributes["type"] for one in inline} == {"application/json"}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", FIELDS)
def test_hostile_text_stays_text(name: str, text: str) -> None:
    query = {"a": "json" if name == "a.json" else "zizq", name: text}
    plain = {one.name for one in page("a=json").elements} | {"optgroup"}
    for partial in (False, True):
        made = page({"jobs": "5"} | query, partial=partial)
        assert {one.name for one in made.elements} <= plain
        assert not [one for one in made.elements if any(key.startswith("on") for key in one.attributes)]
        assert made.url == read_state(urlencode({"jobs": "5"} | query).encode()).url()
        assert "49" not in made.notice


def test_hostile_names_stay_text_too() -> None:
    made = page({"<b>x</b>": "1", "a.<i>": "2"})
    assert "'<b>x</b>' is no parameter of this page" in made.notice
    assert made.named("i") == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.base", "15 parsecs", 'base: "15 parsecs" is not valid; expected a duration'),
        ("a.base", "-3s", "expected a duration"),
        ("a.exponent", "nan", "expected a number"),
        ("a.exponent", "1e999", "expected a number"),
        ("a.limit", "2.5", "expected a whole number"),
        ("a.limit", "-1", "expected a whole number"),
        ("a.jitter", "lots", "expected one of none, full"),
        ("jobs", "0", "expected a whole number from 1 to 100000"),
        ("jobs", "100001", "expected a whole number from 1 to 100000"),
        ("jobs", "9" * 400, "expected a whole number"),
        ("outage", "soon", "expected a duration"),
        ("success", "2", "expected a number from 0 to 1"),
        ("retry", "0", "expected a whole number from 1 to 100"),
        ("seed", "", "expected a whole number"),
        ("until", "x" * 30_000, "30000 characters are too many"),
    ],
)
def test_what_does_not_fit_is_told_beside_its_field(name: str, text: str, expected: str) -> None:
    made = page({"a": "zizq", name: text})
    assert expected in made.error(name)
    assert made.data["errors"] == {name: made.error(name)}
    assert made.data["curves"] == []
    assert "there is nothing to draw" in made.html.lower()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ('{"preset": "even", "preset": "zizq"}', "stands in one object twice"),
        ("[1]", "expected an object such as"),
        ('{"curve": {"power": {}}}', "curve.power.exponent: is missing"),
        ('{"curve": {"constant": "1s"}, "jiter": "full"}', "jiter: is no known field"),
        ("[" * 5_000, "is not JSON"),
        ('{"a": "' + "x" * 20_000 + '"}', "characters are too many"),
    ],
)
def test_wrong_json_is_told_beside_the_policy(text: str, expected: str) -> None:
    made = page({"a": "json", "a.json": text, "b": "even"})
    assert expected in made.error("a")
    assert (made.value("a.json") or "").strip() == text
    assert [line["key"] for line in made.data["curves"]] == ["b"]


def test_half_typed_json_is_told_where_it_ends() -> None:
    made = page({"a": "json", "a.json": '{"curve": {"constant": "1s"}', "b": "even"})
    assert made.error("a") == "policy: this is not JSON yet: line 1, column 29: Expecting ',' delimiter"


@pytest.mark.parametrize("text", ["20,000", "20_000", "20 000", "20\u00a0000", "20'000", "20000"])
def test_jobs_may_be_written_as_the_page_writes_them(text: str) -> None:
    made = page({"a": "even", "b": "even", "jobs": text, "chart": "curve"})
    assert (made.error("jobs"), made.data["jobs"]) == ("", 20_000)


@pytest.mark.parametrize("text", ["2,00", "20,00", "2,000,00", "1,000 000", "20,000.5"])
def test_what_is_no_thousand_is_refused(text: str) -> None:
    assert "expected a whole number from 1 to 100000" in page({"a": "even", "jobs": text}).error("jobs")


def test_a_misspelt_preset_is_told_which_one_may_have_been_meant() -> None:
    assert 'did you mean "sidekiq"' in page("a=sidekik").error("a")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("scale=cubic", "scale: 'cubic' is not valid; expected one of: log, linear"),
        ("herd=cows", "expected one of: dots, heat, lines"),
        ("chart=pie", "expected one of: curve, herd, load, waits"),
        ("colour=red", "'colour' is no parameter of this page"),
        ("&".join(f"x{n}=1" for n in range(500)), "more than 400 parameters"),
    ],
)
def test_wrong_names_are_told_on_the_page(query: str, expected: str) -> None:
    assert expected in page(query).notice


def test_too_many_calls_are_refused_beside_the_jobs() -> None:
    made = page("a=zizq&a.limit=100&jobs=100000")
    assert "expected at most 3,000,000" in made.error("jobs")
    assert made.data["curves"] == []


def test_a_policy_without_end_shows_its_first_retries() -> None:
    made = page("a=constant&a.limit=none")
    assert len(made.data["curves"][0]["nominal"]) == 25
    assert "no end; 25 shown" in made.html


def test_a_policy_without_retries_is_a_page_too() -> None:
    made = page("a=even&a.limit=0")
    assert made.data["beside"]["load"] == {"a": "peak 0 a second"}
    assert made.data["errors"] == {}


def test_a_problem_leaves_the_form() -> None:
    made = page("a=zizq&a.base=20s", problem="this takes longer than 2 s")
    assert made.notice.startswith("this takes longer than 2 s")
    assert made.value("a.base") == "20s"
    assert made.data["curves"] == []


def test_a_part_brings_the_form_only_where_it_has_changed() -> None:
    def has_form(query: str) -> bool:
        return "policies" in page(query, partial=True).ids

    assert not has_form("a=zizq&a.of=zizq&a.base=20s")
    assert has_form("a=faktory&a.of=zizq&a.base=20s")
    assert has_form("a=even&add=zizq")
    assert has_form("a=even&b=zizq&remove=a")


def test_parameters_of_the_preset_before_say_nothing() -> None:
    made = page("a=faktory&a.of=zizq&a.base=20s&a.exponent=9")
    assert made.url == "/lab?a=faktory"
    assert made.data["errors"] == {}


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_has_a_page(name: str) -> None:
    made = page(f"a={name}&jobs=50")
    assert made.data["errors"] == {}
    assert made.notice == ""
    assert made.url == f"/lab?a={name}&jobs=50"


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_can_be_taken_apart(name: str) -> None:
    """As JSON it is the same policy, with a control for each of its parts."""
    made = page(f"a=json&a.of={name}&jobs=50")
    assert made.data["errors"] == {}
    assert made.data["curves"][0]["nominal"] == page(f"a={name}&jobs=50").data["curves"][0]["nominal"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "a=zizq&a.base=20s&b=even&b.spread=0.5",
        "a=json&jobs=7&outage=1h&success=0.5&over=10s",
        "scale=linear&herd=heat&chart=curve&chart=load&retry=3",
        "a=even&until=1h&seed=5&phase=hash",
        "a=zizq&a.base=nonsense&jobs=-1",
        "capacity=20&timeout=5s&latency=20ms&workers=3&rate=2&outage=1m",
        "a=even&b=json&b.json=",
        "a=json&a.json=%20",
        "a=json&a.json={",
        "a=",
    ],
)
def test_an_address_gives_its_own_state_again(query: str) -> None:
    first = page(query)
    again = page(first.url.partition("?")[2])
    assert again.url == first.url
    assert again.data == first.data


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from([*FIELDS, "b", "b.json", "c", "d.limit", "over", "until", "phase"]),
        st.one_of(st.text(max_size=20), st.sampled_from(["even", "zizq", "10s", "5", "json", "heat", ""])),
        max_size=6,
    )
)
def test_any_query_is_a_page_and_its_address_settles(query: dict[str, str]) -> None:
    first = page({"jobs": "20"} | query)
    second = page(first.url.partition("?")[2])
    assert page(second.url.partition("?")[2]).url == second.url


def test_an_empty_box_stays_empty() -> None:
    """A link that says that the box is empty says just that, not what a new box would hold."""
    made = page("a=even&b=json&b.json=")
    assert made.url == "/lab?a=even&b=json&b.json="
    assert made.data["set"]["texts"]["b.json"] == ""
    assert made.error("b").startswith("policy: the box is empty; expected an object such as")
    assert [line["key"] for line in made.data["curves"]] == ["a"]
    assert '"curve"' in (
        page("b=json").value("b.json") or ""
    )  # where nothing is said there is something to begin with


def test_the_known_pictures_are_links_to_states_of_this_page() -> None:
    links = [one.attributes["href"] for one in page("").named("a")]
    for link, _ in LINKS.values():
        assert link in links
        made = page(link.partition("?")[2])
        assert made.notice == ""
        assert made.data["errors"] == {}
    # 15 + 1^4 s at the first retry; from 5 s to 260 s in ten retries.
    assert page(LINKS["zizq"][0].partition("?")[2]).data["curves"][0]["earliest"][0] == 16_000
    shapes = page(LINKS["zaqar"][0].partition("?")[2]).data["curves"]
    assert [(one["earliest"][0], one["latest"][-1], len(one["latest"])) for one in shapes] == [
        (5_000, 260_000, 10)
    ] * 4
    herds = page(LINKS["herd"][0].partition("?")[2]).data["herds"]
    assert [(len(one["dots"]), one["retries"]) for one in herds] == [(100, 5)] * 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a=zizq", "a=faktory"),
        ("a=zizq", "a=zizq&b=even"),
        ("a=even&b=zizq", "b=zizq"),
        ("a=zizq", "a=zizq&a.jitter=full"),
        ("a=zizq", "a=zizq&scale=linear"),
        ("a=zizq", "a=zizq&herd=heat"),
        ("a=zizq", "a=zizq&chart=load"),
        ("a=zizq", "a=zizq&phase=hash"),
        ('a=json&a.json={"curve":{"constant":"5m"}}', 'a=json&a.json={"curve":{"fibonacci":"5m"}}'),
    ],
)
def test_what_is_chosen_is_a_step(before: str, after: str) -> None:
    assert page(before).data["step"] != page(after).data["step"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a=even&b=sidekiq"),
        ("a=zizq", "a=zizq&a.base=20s&a.limit=3&jobs=50&outage=1h&retry=2"),
        ("a=zizq", "a=zizq&a.base=nonsense"),
        ('a=json&a.json={"curve":{"constant":"5m"}}', 'a=json&a.json={"curve":{"constant":"6m"},"limit":3}'),
    ],
)
def test_numbers_are_no_step(before: str, after: str) -> None:
    assert page(before).data["step"] == page(after).data["step"]


@pytest.mark.parametrize(
    ("query", "how"),
    [
        ("a=json&a.json={", {}),
        ("a=json&a.json=", {}),
        ("a=zizq&a.limit=100&jobs=100000", {}),
        ("a=zizq", {"problem": "this takes longer than 2 s"}),
    ],
)
def test_where_nothing_can_be_drawn_an_open_page_keeps_what_it_has(query: str, how: dict[str, str]) -> None:
    part = page(query, partial=True, **how)
    assert part.data["kept"]
    assert part.ids.isdisjoint({"facts", "tables", "forms", "policies", "words-curve"})
    errors = part.data["errors"].values()
    assert errors or "problem" in how
    assert all(text.endswith(". The picture is still the previous one.") for text in errors)
    assert not page(query, **how).data["kept"]


def test_json_that_cannot_be_read_leaves_the_controls_of_the_json_before() -> None:
    good = page('a=json&a.json={"curve":{"constant":"5m"}}')
    asked = {"a": "json", "a.of": good.value("a.of") or "", "a.curve.wait": "7m"}
    bad = page(asked | {"a.json": "{"}, partial=True)
    assert bad.data["unread"] == ["a"]
    assert bad.data["set"]["texts"]["a.of"] == asked["a.of"]
    assert "policies" not in bad.ids
    # What can be read next brings its own controls, and theirs say nothing about it.
    mended = page(asked | {"a.json": '{"curve":{"constant":"6m"}}'}, partial=True)
    assert "policies" in mended.ids
    assert mended.data["curves"][0]["nominal"][0] == 360_000
    # The same as before finds the controls that are still there.
    same = page({"a": "json", "a.of": asked["a.of"], "a.json": good.value("a.json") or ""}, partial=True)
    assert "policies" not in same.ids
    assert same.data["unread"] == []


def test_json_that_could_never_be_read_gets_controls_with_the_first_that_can() -> None:
    bad = page("a=json&a.json={")
    asked = {"a": "json", "a.of": bad.value("a.of") or "", "a.json": '{"curve":{"constant":"6m"}}'}
    assert "policies" in page(asked, partial=True).ids
    # And so where the form came anew, and its controls were gone.
    swapped = page({"a": "json", "a.of": "json:0", "a.json": "{", "add": "even"}, partial=True)
    assert swapped.value("a.of") == swapped.data["set"]["texts"]["a.of"] == "json"


def test_the_outage_comes_before_the_policies_and_what_a_link_says_is_not_folded_away() -> None:
    names = [one.attributes.get("name") for one in page("a=even&b=sidekiq").elements]
    assert names.index("outage") < names.index("a")

    def open_folds(query: str) -> int:
        return sum(one.attributes.get("class") == "more" and "open" in one.attributes
                   for one in page(query).named("details"))  # fmt: skip

    assert open_folds("a=even") == 0
    assert open_folds("a=even&workers=3") == 1


def test_a_link_is_readable() -> None:
    assert page({"a": "zizq", "a.base": "1h30m"}).url == "/lab?a=zizq&a.base=1h30m"


def test_the_json_block_cannot_be_left() -> None:
    made = page({"a": "json", "a.json": "</script>"})
    assert not re.search(r"</script>[^\n]*errors", made.html)
    assert made.data["set"]["texts"]["a.json"] == "</script>"


def test_the_style_sheet_has_the_colours_of_the_charts() -> None:
    """What is drawn and the badge beside it are one colour, by day and by night."""
    sheet = (files("anew.web") / "static" / "base.css").read_text()
    for key, light, dark in zip(LETTERS, POLICY_COLOURS, POLICY_COLOURS_DARK, strict=False):
        assert f"  --{key}: light-dark({light}, {dark});\n" in sheet


def test_words_of_the_form_are_explained() -> None:
    made = page("a=even")
    assert {"cap", "capacity", "time-out"} <= {one.text for one in made.named("dt")}
    beside = made.html.partition('name="a.detune"')[2].partition("data-error")[0]
    assert HINTS["detune"] in beside  # a word of ours is explained where it stands


def test_a_policy_that_is_too_much_work_is_named_and_the_others_keep_their_figures() -> None:
    """Without end and once a second, 1,000 jobs would make 600,000 calls in ten minutes."""
    made = page("a=constant&b=constant&b.wait=1s&b.limit=&outage=10m&capacity=50&jobs=1000")
    assert "more than 300,000 calls" in made.error("jobs")
    assert made.error("jobs").endswith("(policy B)")
    row = made.html.partition("Half are done")[2].partition("</tr>")[0]
    assert row.endswith("<td>–</td>")
    assert [one["key"] for one in made.data["load"]["lines"]] == ["a"]


def test_a_scenario_that_is_too_much_work_for_all_shows_no_figures_of_another() -> None:
    """The herd without outage and capacity stood below the words of the outage."""
    made = page("a=constant&a.wait=1s&a.limit=&outage=10m&capacity=50&jobs=1000")
    assert made.error("jobs").endswith("expected fewer jobs or retries, a shorter outage (policy A)")
    assert made.data["herds"] == made.data["load"]["lines"] == []
    assert "There is nothing to draw" in made.html
    assert "Peak second" not in made.html
