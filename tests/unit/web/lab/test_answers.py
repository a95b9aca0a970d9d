"""What the page says of values that do not fit, of presets that were changed, and of parameters that do nothing."""

from __future__ import annotations

import pytest

from anew.backoff import PRESETS

from .pages import Page, page


def summary(made: Page, key: str = "a") -> str:
    """The line below a policy's name, which is the same to an open page."""
    (place,) = [one for one in made.named("p") if one.attributes.get("class") == "summary"]
    assert made.data["summaries"] == {key: place.text.strip()}
    return place.text.strip()


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_as_it_comes_has_its_own_summary(name: str) -> None:
    made = page(f"a={name}&jobs=5")
    assert summary(made) == PRESETS[name].summary
    assert made.data["idle"] == []


def test_a_changed_preset_says_so() -> None:
    assert summary(page("a=sidekiq&a.limit=2")) == "sidekiq (up to 6.2.1), changed."


def test_what_surprises_about_a_preset_is_said_of_it_as_it_comes() -> None:
    heading = "Worth knowing"
    (plain,) = [one.text.strip() for one in page("a=sidekiq").named("h3") if one.text.startswith(heading)]
    (changed,) = [
        one.text.strip() for one in page("a=sidekiq&a.limit=3").named("h3") if one.text.startswith(heading)
    ]
    assert (plain, changed) == (heading, "Worth knowing of sidekiq as it comes")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a=sidekiq&a.jitter=even", ["a.grow", "a.faces"]),
        ("a=sidekiq&a.jitter=even&a.grow=5s&a.limit=18", ["a.grow", "a.faces"]),
        ("a=even&a.jitter=full", ["a.spread", "a.dither", "a.detune"]),
        ("a=river&a.jitter=none", ["a.share"]),
        ("a=aws_full&a.jitter=equal", []),
        ("a=sidekiq&a.limit=3", []),
    ],
)
def test_what_does_nothing_under_another_jitter_is_hidden(query: str, expected: list[str]) -> None:
    made = page(query)
    assert made.data["idle"] == expected
    controls = [one for one in made.named("div") if "control" in (one.attributes.get("class") or "").split()]
    assert sum("hidden" in one.attributes for one in controls) == len(expected)
    # What it holds stays in the address, for the jitter that it belongs to.
    assert page(made.url.partition("?")[2]).url == made.url
    assert ("a.grow=5s" in made.url) == ("a.grow=5s" in query)


@pytest.mark.parametrize("query", ["a=zizq&outage=soon", "a=zizq&a.cap=soon", "a=zizq&timeout=0&outage=1m"])
def test_nothing_is_an_empty_box(query: str) -> None:
    """Null is what JSON has for it."""
    (error,) = page(query).data["errors"].values()
    assert ", or empty" in error
    assert "null" not in error


def test_another_name_of_a_preset_keeps_its_parameters() -> None:
    first = page("a=full_jitter&a.base=2s")
    again = page({"a": "aws_full", "a.of": first.value("a.of") or "", "a.base": "2s"})
    assert again.url == "/lab?a=aws_full&a.base=2s"


def test_presets_that_are_often_taken_for_another_say_which_they_are() -> None:
    made = page("a=sidekiq")
    assert made.data["curves"][0]["label"] == "A sidekiq (up to 6.2.1)"
    (option, *_) = [one for one in made.named("option") if one.attributes.get("value") == "sidekiq"]
    assert option.text.strip() == "sidekiq (up to 6.2.1)"


@pytest.mark.parametrize("name", ["power", "between", "fibonacci"])
def test_a_bare_curve_can_be_chosen_like_a_preset(name: str) -> None:
    made = page("a=even")
    (option,) = [one for one in made.named("option") if one.text.strip() == name]
    chosen = page({"a": option.attributes["value"] or "", "a.of": "even", "a.spread": "0.5"}, partial=True)
    assert chosen.data["errors"] == {}
    assert chosen.data["policies"]
    assert chosen.data["curves"][0]["label"] == "A custom"
    assert f'{{"curve": {{"{name}"' in (chosen.value("a.json") or "")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("a=zizq&b=even&outage=soon", "outage"),
        ("a=zizq&b=even&jobs=x", "jobs"),
        ("a=zizq&b=even&retry=x", "retry"),
        ("a=zizq&b=even&a.base=long", "a.base"),
        ("a=zizq&b=even&a.jitter=lots", "a.jitter"),
        ("b=even&a=json&a.json={", "a"),
    ],
)
def test_what_does_not_fit_keeps_the_picture_of_an_open_page(query: str, name: str) -> None:
    made = page(query, partial=True)
    assert made.data["errors"][name].endswith(". The picture is still the previous one.")
    assert made.data["kept"]
    assert "verdict" not in made.ids


@pytest.mark.parametrize(
    ("query", "drawn"),
    [("a=zizq&b=even&outage=soon", []), ("a=zizq&b=even&retry=x", []), ("a=zizq&b=even&a.base=long", ["b"])],
)
def test_a_page_draws_the_policies_that_fit_if_the_scenario_does(query: str, drawn: list[str]) -> None:
    made = page(query)
    assert [line["key"] for line in made.data["curves"]] == drawn
    assert ("what is wrong stands beside its field" in made.html) == (not drawn)
