"""What the page says besides its pictures: what does not fit, what fields hold, what a changed preset comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anew.lab.explain import Explanation
from anew.units import format_duration
from anew.web.cards import JSON, Card
from anew.web.controls import Control
from anew.web.herds import Herd
from anew.web.messages import Ask
from anew.web.state import SCENARIO, UNTIL, State
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
        "summaries": {card.key: card.summary for card in state.cards if card.preset},
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
    texts |= {f"{card.key}.was": card.was for card in state.cards}
    texts |= {f"{card.key}.json": card.json for card in state.cards if card.choice == JSON}
    return {"sliders": sliders, "texts": texts}


def _controls(state: State) -> list[Control]:
    return [*state.controls.values(), state.retry, *(item for card in state.cards for item in card.controls)]


# ---- in place of what does not fit


def unfit(state: State) -> list[Control]:
    """Give the controls whose text does not fit, before anything has been drawn without it."""
    return [item for item in _controls(state) if item.error]


def shared_unfit(state: State) -> bool:
    """Tell whether a number that all pictures hang on does not fit, such as one that is half typed."""
    return any(item.error for item in (*state.controls.values(), state.retry))


def say_what_holds(state: State, wrong: Sequence[Control], herds: Sequence[Herd]) -> list[str]:
    """Say beside each wrong text for what the pictures are.

    Args:
        state: The state.
        wrong: The controls that `unfit` has found.
        herds: What is drawn.

    Returns:
        A sentence for the figures about each wrong value of the scenario, which all of them hang on.
    """
    drawn = {one.key for one in herds}
    sentences = []
    _say_what_was(state, drawn)
    drawn -= {card.key for card in state.cards if card.before}
    for item in wrong:
        shared = item.name in state.controls or item is state.retry
        if not drawn or not (shared or item.name.partition(".")[0] in drawn):
            continue
        holds = _instead(state, item)
        item.error += f". The picture is for {item.label}: {holds}"
        if item.name in state.controls:
            sentences.append(f"These figures are for {item.label}: {holds}. What its box holds does not fit.")
    return sentences


def _say_what_was(state: State, drawn: set[str]) -> None:
    """Say beside the mistake in a policy that it is drawn as it was before."""
    for card in state.cards:
        if card.before and card.key in drawn:
            holds = f". The picture is of {card.key.upper()} as it was before the mistake"
            card.error += holds if card.error else ""
            for item in card.controls:
                item.error += holds if item.error else ""


def _instead(state: State, item: Control) -> str:
    """Say what holds in place of a wrong text; an outage that is not said depends on whether a success is."""
    if item.name == "outage" and state.values["success"] != SCENARIO["success"][2]:
        return "none"
    return item.instead


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
        if card.changed and not card.before:
            figures = f": {_comes_to(drawn[card.key])}" if card.key in drawn else ""
            card.summary = f"After {card.label[2:]}, changed{figures}."


def _comes_to(explained: Explanation) -> str:
    rows, total, deadline_ms = explained.rows, explained.total, explained.policy.deadline_ms
    if not rows:
        return "no retry"
    if deadline_ms is not None:
        most = len(rows) if explained.ended_by_deadline else total
        count = "as many retries as begin" if most is None else f"at most {_retries(most)}"
        return f"{count} within {format_duration(deadline_ms)}"
    if total is None:
        return "retries without end"
    last = rows[-1]
    if total > len(rows) or last.window_earliest_ms is None:
        return _retries(total)
    return f"{_retries(total)} in {between(last.window_earliest_ms, last.window_latest_ms)}"


def _retries(count: int) -> str:
    return f"{count:,} retry" if count == 1 else f"{count:,} retries"
