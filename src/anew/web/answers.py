"""What the page says besides its pictures: what does not fit, what fields hold, what a changed preset comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anew.lab.explain import Explanation
from anew.units import counted, format_duration
from anew.web.cards import JSON, Card
from anew.web.controls import Control
from anew.web.herds import Herd
from anew.web.messages import Ask
from anew.web.state import UNTIL, State
from anew.web.words import between


def about(state: State, ask: Ask, *, kept: bool) -> dict[str, Any]:
    """Give what the browser needs besides the pictures: what does not fit, what the form holds, where the state lives.

    Args:
        state: The state.
        ask: How the page asked.
        kept: Nothing is drawn, and the pictures of the state before stay.
    """
    errors = state.errors()
    if kept:
        errors = {name: f"{text}. The picture is still the previous one." for name, text in errors.items()}
    return {
        "errors": errors,
        "unread": [card.key for card in state.cards if card.unread],
        "summaries": {} if kept else {card.key: card.summary for card in state.cards if card.preset},
        "idle": [item.name for card in state.cards for item in card.controls if item.idle],
        "policies": ask.partial and state.restructured,
        "set": _set(state),
        "step": state.step(),
        "url": state.url(),
        "kept": kept,
    }


def _set(state: State) -> dict[str, Any]:
    """Give where sliders stand, and what fields hold that the user has not just filled, by the name in the query."""
    controls = _controls(state)
    sliders = {item.name: (item.slider.at, item.slider.end) for item in controls if item.slider is not None}
    texts = {f"{card.key}.of": card.of for card in state.cards}
    texts |= {f"{card.key}.json": card.json for card in state.cards if card.choice == JSON}
    return {"sliders": sliders, "texts": texts}


def _controls(state: State) -> list[Control]:
    return [*state.controls.values(), state.retry, *(item for card in state.cards for item in card.controls)]


def say_what_is_shown(state: State, end_ms: int) -> dict[str, str]:
    """Say in numbers, beside the control itself, how far the pictures over time reach; 0: there is no retry."""
    said = f"0 to {format_duration(end_ms)}" if end_ms else "nothing: there is no retry"
    if end_ms and state.values[UNTIL] != end_ms:
        said = f"all: {said}"
    state.controls[UNTIL].stands = said
    return {UNTIL: said}


# ---- a preset that is no longer as it comes


def summarize(cards: Sequence[Card], herds: Sequence[Herd]) -> None:
    """Say what each changed preset comes to, in place of the sentence about it as it comes."""
    drawn = {one.key: one.explained for one in herds}
    for card in cards:
        if card.changed:
            figures = f": {_comes_to(drawn[card.key])}" if card.key in drawn else ""
            card.summary = f"After {card.label[2:]}, changed{figures}."


def _comes_to(explained: Explanation) -> str:
    rows, total, deadline_ms = explained.rows, explained.total, explained.policy.deadline_ms
    if not rows:
        return "no retry"
    if deadline_ms is not None:
        most = len(rows) if explained.ended_by_deadline else total
        count = "as many retries as begin" if most is None else f"at most {counted(most, 'retry', 'retries')}"
        return f"{count} within {format_duration(deadline_ms)}"
    if total is None:
        return "retries without end"
    last = rows[-1]
    if total > len(rows) or last.window_earliest_ms is None:
        return counted(total, "retry", "retries")
    return (
        f"{counted(total, 'retry', 'retries')} in {between(last.window_earliest_ms, last.window_latest_ms)}"
    )
