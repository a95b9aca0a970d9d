"""The whole state of the page, read out of a query string and written back into one. Nothing else keeps any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from anew.backoff.fields import fields_of
from anew.backoff.kinds import Duration, Integer, Kind
from anew.lab.charts.link import LETTERS
from anew.lab.simulation.scenario import PAGE_JOBS, Scenario
from anew.units import format_duration_short
from anew.web.lab.cards import JSON, Card, read_card
from anew.web.lab.controls import Control, control
from anew.web.lab.intent import FIRST_LETTER, Intent, read_intent

PATH: Final = "/lab"
MAX_PAIRS: Final = 400

BEGIN: Final = (("a", "even"), ("b", "sidekiq"))
"""What a page shows that was asked for nothing."""

NEXT: Final = ("zizq", "aws_full", "constant", "faktory", "even")
"""What a further policy begins with, the first that is not there yet."""

CHARTS: Final = {"curve": "Waits", "herd": "Retries", "load": "Load", "waits": "One retry"}
"""What can be shown, and how it is called."""

SCENARIO: Final[dict[str, tuple[str, str, Any, str]]] = {
    "jobs": ("jobs", "jobs", 1_000, "that fail together"),
    "outage": (
        "outage",
        "outage",
        None,
        "until then every retry fails; empty: for ever, or none if a success is set",
    ),
    "success": ("success", "success", 1.0, "chance of each retry, after the outage if there is one"),
    "over": ("over", "fail over", 0, "the first failures are spread over this time"),
    "capacity": (
        "capacity",
        "capacity",
        None,
        "calls per second that the service can do; empty: any number",
    ),
    "timeout": ("timeout", "time-out", None, "callers give up after this, and the work is done in vain"),
    "latency": ("latency", "service time", 0, "of one call, besides"),
    "workers": ("workers", "workers", None, "calls at once, at most; empty: any number"),
    "rate": ("base_rate", "other calls", 0.0, "per second, beside these jobs"),
    "seed": ("seed", "seed", 1, "chance; the same seed gives the same picture"),
    "phase": (
        "phase",
        "phases",
        "seq",
        "each job's own number for `even`: by the order of failures (seq), or hashed from its id",
    ),
}
"""The herd and what it meets: the scenario's field, its label here, its default here, and a hint."""

UNTIL: Final = "until"
_END: Final = Duration(optional=True)
"""Of the outage, and of what is shown."""

_UNITS: Final = {"capacity": "/s", "rate": "/s"}
"""Of numbers whose text names none."""

_SELDOM: Final = frozenset({"over", "timeout", "seed", "phase", "latency", "workers", "rate", UNTIL})

SCALES: Final = ("log", "linear")
HERDS: Final = {"dots": "100 jobs as dots", "heat": "all as heat", "lines": "all as lines"}
"""How a herd can be shown."""


@dataclass(slots=True, kw_only=True)
class State:
    """What a page shows.

    Attributes:
        cards: The policies, one to four.
        controls: Of the scenario, by name.
        values: The scenario's values in their inner form.
        scale: ``log`` or ``linear``.
        herd_as: How herds are shown, one of `HERDS`.
        charts: What is shown.
        retry: Control of the retry whose waits the histogram shows.
        retry_number: Which one that is.
        intent: What was asked for at the head of the page.
        given: The query's texts by name.
        notes: What is wrong with the query itself.
        restructured: The form has other controls than the page that asked.
    """

    cards: list[Card] = field(default_factory=list)
    controls: dict[str, Control] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    scale: str = SCALES[0]
    herd_as: str = "dots"
    charts: tuple[str, ...] = tuple(CHARTS)
    retry: Control
    retry_number: int = 10
    intent: Intent = field(default_factory=Intent)
    given: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    restructured: bool = False

    @property
    def next_preset(self) -> str:
        """The preset that a further policy begins with: one that is not there yet."""
        shown = {card.preset for card in self.cards}
        return next((name for name in NEXT if name not in shown), NEXT[0])

    def errors(self) -> dict[str, str]:
        """Give what is wrong by the name of the field."""
        found = self.scenario_errors()
        for card in self.cards:
            found |= card.errors()
        return found

    def scenario_errors(self) -> dict[str, str]:
        """Give what is wrong with the numbers that all pictures hang on."""
        return {item.name: item.error for item in (*self.controls.values(), self.retry) if item.error}

    def url(self) -> str:
        """Give the address of this state."""
        return f"{PATH}?{encoded(self._pairs())}"

    def step(self) -> str:
        """Give what is chosen, without what is typed or slid: where it differs, Back leads from one state to the other."""
        pairs = [pair for card in self.cards for pair in card.kind()]
        pairs += [(name, item.text) for name, item in self.controls.items() if item.options]
        pairs += [("scale", self.scale), ("herd", self.herd_as), *(("chart", name) for name in self.charts)]
        return encoded(pairs)

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = [pair for card in self.cards for pair in card.link()]
        pairs += [(name, item.text) for name, item in self.controls.items() if item.said]
        pairs += self.intent.link()
        if self.scale != SCALES[0]:
            pairs.append(("scale", self.scale))
        if self.herd_as != "dots":
            pairs.append(("herd", self.herd_as))
        if self.charts != tuple(CHARTS):
            pairs += [("chart", name) for name in self.charts]
        if self.retry.said:
            pairs.append(("retry", self.retry.text))
        return pairs


def encoded(pairs: list[tuple[str, str]]) -> str:
    """Write a query string that people can read."""
    return urlencode(pairs, safe="{}[]:,/@")


def read_query(query: bytes) -> tuple[dict[str, str], list[str], list[str]]:
    """Read a query string.

    Returns:
        The texts by name (of repeated names the last), the charts that are named, and what is wrong.
    """
    try:
        pairs = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PAIRS, errors="replace"
        )
    except ValueError:
        return {}, [], [f"query: more than {MAX_PAIRS} parameters; expected a link that this page made"]
    charts = [text for name, text in pairs if name == "chart"]
    notes = [
        f"chart: {name[:40]!r} is not valid; expected one of: {', '.join(CHARTS)}"
        for name in charts
        if name not in CHARTS
    ]
    return {name: text for name, text in pairs if name != "chart"}, charts, notes


def read_state(query: bytes) -> State:
    """Read a page's whole state; what does not fit is noted beside its field, and the rest stays."""
    given, charts, notes = read_query(query)
    shown = tuple(name for name in CHARTS if name in charts) or tuple(CHARTS)
    retry, number = control(Integer(1, 100), "retry", given.get("retry"), 10, hint="whose waits are shown")
    state = State(given=given, notes=notes, charts=shown, retry=retry, retry_number=number)
    state.scale = _word(state, "scale", SCALES)
    state.herd_as = _word(state, "herd", tuple(HERDS))
    _read_intent(state)
    _read_scenario(state)
    _read_cards(state)
    _note_unknown(state)
    return state


def _read_intent(state: State) -> None:
    """Read what is asked for; a question without policies is answered with those that do it, and with its herd and outage."""
    state.intent = intent = read_intent(state.given)
    if any(letter in state.given for letter in LETTERS) or "remove" in state.given:
        return
    if intent.proposals and intent.wish:
        herd = {"jobs": str(intent.wish.jobs), "outage": format_duration_short(intent.wish.outlive_ms)}
        state.given = {**herd, **state.given, **dict(zip(LETTERS, intent.policies(), strict=False))}


def _word(state: State, name: str, words: tuple[str, ...]) -> str:
    """Read one of a few words; the first is meant where nothing is said."""
    given = state.given.get(name, words[0])
    if given in words:
        return given
    state.notes.append(f"{name}: {given[:40]!r} is not valid; expected one of: {', '.join(words)}")
    return words[0]


def _read_scenario(state: State) -> None:
    kinds = {name: kind for name, (_, kind) in fields_of(Scenario).items()}
    kinds |= {"jobs": Integer(1, PAGE_JOBS), "outage": _END}  # here one without end may be asked for
    for name, (field_name, label, default, hint) in SCENARIO.items():
        _read_one(state, name, kinds[field_name], default, label, hint)
    _read_one(state, UNTIL, _END, None, "show until", "time after the first failure; empty: all of it")


def _read_one(state: State, name: str, kind: Kind, default: Any, label: str, hint: str) -> None:
    state.controls[name], state.values[name] = control(
        kind, name, state.given.get(name), default, label=label, hint=hint, more=name in _SELDOM,
        placeholder={"outage": "for ever", UNTIL: "all"}.get(name, "any" if default is None else ""),
        unit=_UNITS.get(name, ""), stands="" if name == UNTIL else None,
    )  # fmt: skip


def _read_cards(state: State) -> None:
    given: Mapping[str, str] = state.given
    removed = given.get("remove", "")
    keys = [key for key in LETTERS if key in given and key != removed]
    if not keys and not removed:
        given = {**dict(BEGIN), **given}
        keys = [key for key, _ in BEGIN]
    state.cards = [read_card(key, given) for key in keys] or [read_card("a", {"a": "even"})]
    added = given.get("add", "")
    free = next((key for key in LETTERS if key not in keys), None)
    if added and free is not None:
        state.cards.append(read_card(free, {free: added}))
        state.cards.sort(key=lambda card: card.key)
    state.restructured = bool(added or removed) or any(card.restructured for card in state.cards)
    for card in state.cards:
        card.title = next((one.name for one in state.intent.proposals if one.policy == card.policy), "")
        if state.restructured and card.unread:
            card.of = JSON  # the form is drawn anew, without the controls that it had


def _note_unknown(state: State) -> None:
    known = {*SCENARIO, UNTIL, *LETTERS, "add", "remove", "scale", "herd", "retry"}
    shown = {card.key for card in state.cards} | {state.given.get("remove", "")}
    strangers = [
        name
        for name in state.given
        if name not in known and name.partition(".")[0] not in shown and not name.startswith(FIRST_LETTER)
    ]
    for card in state.cards:
        if card.controls and not card.restructured:
            read = {f"{card.key}.of", f"{card.key}.json", *(item.name for item in card.controls)}
            strangers += [
                name for name in state.given if name.startswith(f"{card.key}.") and name not in read
            ]
    for name in strangers[:5]:
        state.notes.append(f"{name[:40]!r} is no parameter of this page; it is ignored")
