"""Makes the page, whole or in parts, out of a query string. Runs in the helper process."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
from jinja2 import Environment

from anew.backoff import PRESETS
from anew.errors import AnewError
from anew.lab.charts.classics import LINKS
from anew.lab.charts.data import bin_edges
from anew.lab.charts.link import LETTERS
from anew.units import counted, format_duration
from anew.web.lab import drawing, scenes, words
from anew.web.lab.cards import JSON, KNOWN_AS, Card
from anew.web.lab.computing import Ask, Made
from anew.web.lab.controls import LADDERS, for_a_box
from anew.web.lab.forms import forms
from anew.web.lab.herds import Herd, herd
from anew.web.lab.parts import CURVE_STARTS
from anew.web.lab.state import CHARTS, HERDS, SCALES, SCENARIO, UNTIL, State, read_state
from anew.web.lab.verdict import verdict
from anew.web.templates import templates_of

_BEFORE_UNIT: Final = re.compile(r"(?<=[0-9]) (?=(?:d|h|min|s|ms|%)(?![a-z]))|(?<=[0-9] [dh]) (?=[0-9])")
"""Where a line must not end: within a duration, or before a per cent sign."""


def _environment() -> Environment:
    made = templates_of("anew.web.lab")
    made.policies["json.dumps_function"] = lambda value, **_: msgspec.json.encode(value).decode()
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:] + "."
    made.filters["unbroken"] = _unbroken
    made.filters["duration"] = lambda ms: "–" if ms is None else format_duration(ms)
    made.globals |= {
        "presets": _by_family(),
        "starts": _starts(),
        "classics": LINKS,
        "charts": CHARTS,
        "scales": SCALES,
        "herd_words": HERDS,
        "letters": LETTERS,
        "ladders": LADDERS,
        "colours": drawing.COLOURS,
    }
    return made


def _unbroken(text: str) -> str:
    return _BEFORE_UNIT.sub("\u00a0", text)


def _by_family() -> dict[str, dict[str, str]]:
    families: dict[str, dict[str, str]] = {}
    for name, preset in PRESETS.items():
        families.setdefault(preset.family, {})[name] = KNOWN_AS.get(name, name)
    return families


def _starts() -> dict[str, str]:
    """Give policies of a bare curve to begin with, where no preset is one: JSON stands in place of a name."""
    return {
        name: msgspec.json.encode({"curve": {name: CURVE_STARTS[name]}, "limit": 25}).decode()
        for name in ("power", "between", "fibonacci")
    }


_TEMPLATES: Final = _environment()


def warm_up() -> None:
    """Load all that a first page would have to load, so that it comes as fast as those after it."""
    make(Ask(b""))


def make(ask: Ask) -> Made:
    """Make a page.

    Returns:
        The page; its data say which address gives it again.
    """
    state = read_state(ask.query)
    # Half-typed, a text would draw something else: an open page keeps the picture that it has until all of it fits.
    # Elsewhere the policies that fit are drawn, but for a scenario that does not, which all of them meet.
    fits = not (state.errors() if ask.partial else state.scenario_errors())
    shown = _results(state, compute=fits and not ask.problem)
    kept = ask.partial and not shown["data"]["curves"] and not shown["data"]["herds"]
    shown["data"] |= _about(state, ask, kept=kept)
    template = _TEMPLATES.get_template("parts.html" if ask.partial else "page.html")
    html = template.render(shown, state=state, problem=ask.problem, partial=ask.partial, kept=kept)
    return Made(html.encode())


def _results(state: State, *, compute: bool) -> dict[str, Any]:
    """Give what the templates show beside the form."""
    herds = _herds(state) if compute else []
    played = _scenes(state, herds) if compute else []
    if compute and not played and not scenes.is_plain(state.values):
        herds = []  # figures of another scenario than the one that stands beside them
    _end_slider(state, herds)
    data = _data(state, herds, played)
    outage, wish = state.values["outage"], state.intent.wish
    served = words.HOW_SERVED if any(one.served for one in played) else ""
    shaded = f" Shaded: the outage of {format_duration(outage)}." if outage else ""
    return {
        "herds": herds,
        "verdict": verdict(herds, played, wish.calls if wish else None),
        "facts": _facts(state, herds, played) if herds else [],
        "said": {
            "curve": [f"Line: {data['line']}. Shade: from the earliest to the latest wait."] if herds else [],
            "herd": [words.HOW_HERD[state.herd_as] + shaded] if herds else [],
            "load": [words.HOW_LOAD + served, *scenes.said(played)] if herds else [],
            "waits": ["How many of the jobs wait so long."] if herds else [],
        },
        "forms": [(card, forms(card)) for card in state.cards if card.policy is not None],
        "data": data,
    }


def _end_slider(state: State, herds: list[Herd]) -> None:
    """Let the slider of the one retry end at the last that any policy has."""
    last = max((one.retries for one in herds), default=0)
    if last and state.retry.slider is not None:
        state.retry.slider = replace(state.retry.slider, high=last, at=min(state.retry_number, last))


def _facts(state: State, herds: list[Herd], played: list[scenes.Scene]) -> list[tuple[str, list[words.Row]]]:
    """Give the table of figures: groups of rows that are about the same, each under a heading that says about what."""
    jobs = state.values["jobs"]
    if played:
        heading = f"In this scenario: {scenes.in_words(state.values)}"
        rows = _aligned(scenes.facts(played, jobs), played, herds)
    else:
        heading = f"{counted(jobs, 'job')} failing together, then at every retry"
        busiest = [words.busiest(one.rhythm.peak_minute, jobs) for one in herds]
        rows = [("Peak minute", "calls, % of the jobs", busiest)]
    own = words.facts(herds, every=bool(played))
    return [("Each policy, whatever its jobs meet", own), (heading, rows)]


def _aligned(rows: list[words.Row], played: list[scenes.Scene], herds: list[Herd]) -> list[words.Row]:
    """Put each scene's figures below its own policy; a policy that could not be played has dashes."""
    places = {one.key: place for place, one in enumerate(played)}
    return [
        (name, meaning, [cells[places[one.key]] if one.key in places else "–" for one in herds])
        for name, meaning, cells in rows
    ]


def _herds(state: State) -> list[Herd]:
    found = []
    for card in state.cards:
        if card.policy is not None and not card.errors():
            with _blaming(state, card):
                found.append(herd(card.key, card.label, card.policy, state.values))
    return found


def _scenes(state: State, herds: list[Herd]) -> list[scenes.Scene]:
    """Play the scenario with each policy; nothing where there is none."""
    if scenes.is_plain(state.values):
        return []
    found, cards = [], {card.key: card for card in state.cards}
    for one in herds:
        with _blaming(state, cards[one.key]):
            found.append(scenes.scene(one, scenes.scenario_of(state.values)))
    return found


@contextlib.contextmanager
def _blaming(state: State, card: Card) -> Iterator[None]:
    """Show an error beside the field that it is about; else beside the policy that met it."""
    try:
        yield
    except AnewError as error:
        name = next((name for name, (own, *_) in SCENARIO.items() if own == getattr(error, "field", "")), "")
        if name:
            said = f"{for_a_box(error)} (policy {card.key.upper()})"
            state.controls[name].error = state.controls[name].error or said
        else:
            card.error = card.error or str(error)


def _data(state: State, herds: list[Herd], played: list[scenes.Scene]) -> dict[str, Any]:
    """Give what the browser draws and sets; its shape is the contract with `static/lab.js`."""
    log, drawn = state.scale == "log", played or herds
    calls = {one.key: one.rhythm if isinstance(one, Herd) else one.outcome for one in drawn}
    span = drawing.span(drawn, state.values[UNTIL])
    bounds = [0.0, *bin_edges(*span, drawing.BINS, log)[1:]]  # linear ones begin there anyway
    return {
        "log": log,
        "jobs": state.values["jobs"],
        "charts": {name: name in state.charts for name in CHARTS},
        "herdAs": state.herd_as,
        **drawing.curves(herds),
        "span": span,
        "edges": bounds,
        "herds": [
            {
                "key": one.key,
                "label": one.label,
                "retries": one.retries,
                "dots": drawing.dots(one.dots, span[1]) if state.herd_as == "dots" else None,
                "heat": None if state.herd_as == "dots" else drawing.heat(one.waves, bounds),
            }
            for one in drawn
        ],
        "beside": {
            "herd": {key: _unbroken(words.quiet(each)) for key, each in calls.items()},
            "load": {key: _unbroken(words.about_peak(each)) for key, each in calls.items()},
            "waits": {one.key: _unbroken(words.about_waits(one, state.retry_number)) for one in herds},
        },
        "load": drawing.load(drawn, span, state.values, log=log),
        "stands": _say_what_is_shown(state, span[1] if any(one.waves for one in drawn) else 0),
        "waits": drawing.histograms(herds, state.retry_number, log=log),
        "retry": state.retry_number,
    }


# ---- what the page says besides its pictures: what does not fit, what fields hold


def _about(state: State, ask: Ask, *, kept: bool) -> dict[str, Any]:
    """Give what the browser needs besides the pictures: what does not fit, what the form holds, where the state lives.

    Args:
        kept: Nothing is drawn, and the pictures of the state before stay.
    """
    errors = state.errors()
    if kept:
        errors = {name: f"{text}. The picture is still the previous one." for name, text in errors.items()}
    own = [item for card in state.cards for item in card.controls]
    controls = [*state.controls.values(), state.retry, *own]
    # Where sliders stand, and what fields hold that the user has not just filled, by the name in the query.
    sliders = {item.name: (item.slider.at, item.slider.end) for item in controls if item.slider is not None}
    texts = {f"{card.key}.of": card.of for card in state.cards}
    texts |= {f"{card.key}.json": card.json for card in state.cards if card.choice == JSON}
    return {
        "errors": errors,
        "unread": [card.key for card in state.cards if card.unread],
        "summaries": {} if kept else {card.key: card.summary for card in state.cards if card.preset},
        "idle": [item.name for item in controls if item.idle],
        "policies": ask.partial and state.restructured,
        "set": {"sliders": sliders, "texts": texts},
        "step": state.step(),
        "url": state.url(),
        "kept": kept,
    }


def _say_what_is_shown(state: State, end_ms: int) -> dict[str, str]:
    """Say in numbers, beside the control itself, how far the pictures over time reach; 0: there is no retry."""
    said = f"0 to {format_duration(end_ms)}" if end_ms else "nothing: there is no retry"
    if end_ms and state.values[UNTIL] != end_ms:
        said = f"all: {said}"
    state.controls[UNTIL].stands = said
    return {UNTIL: said}
