"""A policy on the page: by name, as JSON, taken apart, and in the forms of others."""

from __future__ import annotations

import msgspec
import pytest

from anew.backoff import PRESETS, Policy, preset
from anew.backoff.curves import CURVES
from anew.backoff.fields import fields_of
from anew.backoff.policy import JITTERS, Phase
from anew.backoff.windows import Bound
from anew.web.lab.cards import Card, read_card
from anew.web.lab.controls import HINTS, RANGES
from anew.web.lab.forms import forms
from anew.web.lab.parts import CURVE_STARTS, JITTER_STARTS, SELDOM
from anew.web.lab.state import SCENARIO


def card(**given: str) -> Card:
    """Read policy a; ``of_`` and underscores stand for dots."""
    return read_card("a", {name.replace("__", "."): text for name, text in given.items()})


def written(made: Card, name: str) -> str:
    """The policy in one form."""
    (text,) = [form.text for form in forms(made) if form.name == name]
    return text


def test_a_preset_with_nothing_said_is_the_preset() -> None:
    for name in PRESETS:
        assert card(a=name).policy == preset(name)


def test_parameters_and_shared_fields_change_it() -> None:
    made = card(a="zizq", a__base="20s", a__limit="6", a__jitter="full")
    assert made.policy == preset("zizq", base="20s", limit=6, jitter="full")
    assert made.link() == [("a", "zizq"), ("a.base", "20s"), ("a.limit", "6"), ("a.jitter", "full")]


def test_an_alias_is_known() -> None:
    made = card(a="full_jitter")
    assert (made.preset, made.choice) == ("aws_full", "full_jitter")


def test_json_may_stand_in_place_of_a_name() -> None:
    made = card(a='{"preset": "zizq", "limit": 3}')
    assert made.policy == preset("zizq", limit=3)
    assert made.link()[0] == ("a", "json")


def test_controls_change_the_json() -> None:
    start = card(a="json", a__json='{"curve": {"constant": "5m"}, "limit": 3}')
    again = card(a="json", a__json=start.json, a__of=start.of, a__curve__wait="7m", a__jitter="equal")
    assert again.policy == Policy.from_json({"curve": {"constant": "7m"}, "jitter": "equal", "limit": 3})
    assert again.restructured  # another jitter has other controls


def test_an_empty_box_says_what_it_means() -> None:
    """The same in a preset and in JSON: no cap."""
    for made in (card(a="zizq"), card(a="json")):
        (cap,) = [item for item in made.controls if item.label == "cap"]
        assert (cap.text, cap.placeholder) == ("", "none")


def test_edited_json_wins_over_controls() -> None:
    start = card(a="json", a__json='{"curve": {"constant": "5m"}}')
    again = card(a="json", a__json='{"curve": {"constant": "9m"}}', a__of=start.of, a__curve__wait="7m")
    assert again.policy == Policy.from_json({"curve": {"constant": "9m"}})


def test_every_curve_and_jitter_can_be_chosen() -> None:
    assert CURVE_STARTS.keys() == CURVES.keys()
    assert JITTER_STARTS.keys() == JITTERS.keys()
    for curve in CURVES:
        start = card(a="json", a__json='{"curve": {"constant": "5m"}}')
        made = card(a="json", a__json=start.json, a__of=start.of, a__curve=curve)
        assert made.policy is not None, made.error
        assert curve in made.policy.to_json()["curve"]
    for jitter in JITTERS:
        start = card(a="json", a__json='{"curve": {"exponential": "1s"}}')
        made = card(a="json", a__json='{"curve": {"exponential": {"base": "1s"}}}', a__jitter=jitter)
        assert made.policy is not None, (jitter, made.error)
        assert made.policy.jitter.name == jitter  # type: ignore[attr-defined]
    assert start.error


def test_what_is_known_of_names_is_of_names_that_there_are() -> None:
    """Of a policy, of its pieces, of a preset, or of the scenario: others would be left behind by what they were for."""
    pieces = (Policy, Phase, Bound, *CURVES.values(), *JITTERS.values())
    fields = {name for piece in pieces for name in fields_of(piece)}
    parameters = {name for found in PRESETS.values() for name in found.parameters}
    assert fields >= SELDOM
    assert fields | parameters >= HINTS.keys()
    assert fields | parameters | SCENARIO.keys() | {"retry"} >= RANGES.keys()


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.curve", "spiral"), ("a.curve.wait", "long"), ("a.limit", "many")],
)
def test_a_wrong_part_is_told_beside_it(name: str, text: str) -> None:
    start = card(a="json", a__json='{"curve": {"constant": "5m"}}')
    made = read_card("a", {"a": "json", "a.json": start.json, "a.of": start.of, name: text})
    assert list(made.errors()) == [name]
    assert f'"{text}"' in made.errors()[name] or f"'{text}'" in made.errors()[name]


def test_parts_that_contradict_each_other_are_told_somewhere() -> None:
    made = card(a="zizq", a__floor="1h", a__cap="1m")
    assert any("at least floor" in error for error in made.errors().values())
    assert made.policy is None


def test_the_forms_to_copy() -> None:
    zizq = card(a="zizq", a__limit="6")
    assert Policy.from_json(msgspec.json.decode(written(zizq, "JSON"))) == zizq.policy
    assert written(zizq, "Python").endswith('preset("zizq", limit=6)')
    assert msgspec.json.decode(written(zizq, "Zizq")) == {
        "backoff": {"exponent": 4, "base_ms": 15_000, "jitter_ms": 30_000},
        "retry_limit": 6,
    }
    assert written(card(a="faktory", a__limit="7"), "Faktory") == '{"retry": 7}'


def test_beside_each_form_stands_where_it_goes() -> None:
    notes = {form.name: form.note for form in forms(card(a="zizq"))}
    assert notes["Zizq"].startswith("Fields of a job, not a policy: for POST /jobs, or a client of Zizq's.")
    assert "policy=policy.to_json()" in notes["Python"]
    assert all(notes.values())
    (faktory,) = [form.note for form in forms(card(a="faktory")) if form.name == "Faktory"]
    assert faktory.startswith("A field of a job, not a policy: for PUSH")


@pytest.mark.parametrize("name", list(PRESETS))
def test_the_python_form_builds_the_policy(name: str) -> None:
    for made in (card(a=name), card(a=name, a__limit="3"), card(a="json", a__of=name)):
        space: dict[str, object] = {}
        exec(written(made, "Python"), space)
        assert space["policy"] == made.policy


@pytest.mark.parametrize(
    "given",
    [
        {"a": "even"},
        {"a": "faktory"},
        {"a": "zizq", "a.cap": "1h"},
        {"a": "zizq", "a.deadline": "1h"},
        {"a": "zizq", "a.limit": "none"},
        {"a": "zizq", "a.jitter": "full"},
        {"a": "zizq", "a.base": "60d"},
        {"a": "zizq", "a.grow": "50d"},
        {
            "a": "json",
            "a.json": '{"curve": {"power": {"exponent": 4, "origin": 1}}, "jitter": {"grow": {"by": 5, "faces": 3}}}',
        },
    ],
)
def test_what_zizq_cannot_say_is_said(given: dict[str, str]) -> None:
    (form,) = [form for form in forms(read_card("a", given)) if form.name == "Zizq"]
    assert form.text == ""
    assert form.note.startswith("Zizq cannot express this policy: ")


def test_the_largest_that_zizq_can_say() -> None:
    """32 bits of milliseconds: 4,294,967,295; one more is said to be none of its numbers, and not written."""
    largest = card(a="zizq", a__base="4294967295ms", a__grow="4294967295ms")
    backoff = msgspec.json.decode(written(largest, "Zizq"))["backoff"]
    assert backoff == {"exponent": 4, "base_ms": 4_294_967_295, "jitter_ms": 4_294_967_295}
    assert largest.policy is not None
    assert Policy.from_json(backoff).with_limit(25) == largest.policy.with_limit(25)
    (form,) = [form for form in forms(card(a="zizq", a__base="4294967296ms")) if form.name == "Zizq"]
    assert form.text == ""
    assert "in numbers of 32 bits." in form.note
