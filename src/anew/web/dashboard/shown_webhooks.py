"""What pages show of topics, subscriptions and deliveries, from the views that the API gives. Pure: `now` comes from the caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from anew.backoff import Policy
from anew.backoff.words import in_words
from anew.topics import registry
from anew.topics.attempts import UNREADABLE
from anew.topics.delivery_policy import DelayPhase, Preview
from anew.topics.reading import STATUSES, Recent
from anew.topics.steering import moment as instant_of
from anew.units import counted, format_duration, format_share
from anew.web.dashboard.shown import Moment, cut, moment

FEW: Final = 6
"""Waits of a part that are written out; of more only the first and the last are."""

TURNS: Final[Mapping[str, Sequence[str]]] = {
    **{move: sources for move, (sources, _) in registry.TURNS.items()},
    "ask": ("unconfirmed",),
    "test": ("active",),
    "replay": ("active", "paused"),
}
"""What an owner may do with a subscription, and in which statuses."""

DOABLE: Final[Mapping[str, Sequence[str]]] = {
    "scheduled": ("send", "stop"),
    "ready": ("stop",),
    "held": ("stop",),
    "dead": ("send",),
    "delivered": ("send",),
    "cancelled": ("send",),
}
"""And with a delivery, by how far it is."""

_RESULTS: Final = {
    "delivered": "delivered",
    "retry": "failed",
    "dead": "failed for good",
    "ours": "not sent",
    "lost": "lost with the process that sent it",
    "interrupted": "interrupted, as the process that sent it ended",
    "sending": "is being sent",
}
_TRIGGERS: Final = {
    "scheduled": "a publication",
    "manual": "somebody who had it sent again",
    "once": "somebody who had it sent once",
    "replay": "a replay",
    "confirmation": "the question whether the endpoint wants the messages",
}
_CAUSES: Final = {
    "policy": "as its policy says",
    "retry_after": "as the endpoint asked",
    "overload": "as the endpoint has too much to do",
    "deferral": "as it could not be sent",
    "lost": "at once, as it may not have arrived",
}


def at(text: str | None, now: int) -> Moment | None:
    """Give an instant of a view."""
    found = instant_of(text, "instant")
    return None if found is None else moment(found, now)


def phases(preview: Preview) -> list[str]:
    """Say when a failed delivery is tried again, a line for each part of its policy."""
    if preview.retry.policy is not None:
        return list(in_words(Policy.from_json(preview.retry.policy)))
    return [_phase(phase) for phase in preview.phases] or ["no retry"]


def _phase(phase: DelayPhase) -> str:
    name, waits = phase.name, phase.delays_ms
    shown = list(map(format_duration, waits))
    if not any(waits):
        when = "at once"
    elif len(set(waits)) == 1:
        when = f"{shown[0]} after each failure"
    elif len(waits) <= FEW:
        when = f"after {', '.join(shown[:-1])} and {shown[-1]}"
    else:
        when = (
            f"after {shown[0]}, then longer each time, up to {shown[-1]}"
            if waits == sorted(waits)
            else _uneven(waits)
        )
    return f"{name}: {counted(len(waits), 'retry', 'retries')} {when}"


def _uneven(waits: Sequence[int]) -> str:
    return f"after {format_duration(min(waits))} to {format_duration(max(waits))}"


def total(preview: Preview) -> str:
    """Say how many attempts there are, and how long they take."""
    waits, jitter = preview.retry.delays_ms, preview.retry.jitter
    if preview.retry.policy is not None:
        waits = tuple(wait for phase in preview.phases for wait in phase.delays_ms)
    said = counted(len(waits) + 1, "attempt")
    if any(waits):
        said += f" over {format_duration(sum(waits))}"
    return said + (
        f", each wait up to {format_share(jitter)} shorter or longer" if jitter and any(waits) else ""
    )


def holds(policy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Say what else a policy holds to: a name and a text each. Of headers only the names: a value may be a secret."""
    throttle, request, health = policy["throttle"], policy["request"], policy["health"]
    rate = throttle["max_per_second"]
    limits = f"{throttle['max_in_flight']:,} at one time"
    if rate is not None:
        limits += f", {rate:g} a second, {throttle['burst']:,} at once after a quiet time"
    failures, after = health["breaker_failures"], health["disable_after"]
    opens = (
        "never"
        if failures is None
        else f"after {counted(failures, 'failure')} in a row, for {_s(health['breaker_open'])} at first"
    )
    disabled = (
        "never for failures alone"
        if after is None
        else f"after {_s(after)} without a success, and {counted(health['disable_min_failures'], 'failure')}"
    )
    found = [
        ("Requests", limits),
        ("Time-out", f"{_s(request['timeout'])}, {_s(request['connect_timeout'])} to connect"),
        ("Body", request["body"]),
        ("Headers", ", ".join(request["headers"])),
        ("Breaker opens", opens),
        ("Is disabled", disabled),
    ]
    return [(name, text) for name, text in found if text]


def _s(seconds: float) -> str:
    return format_duration(round(seconds * 1_000))


def subscription_row(view: Mapping[str, Any], recent: Recent, now: int) -> dict[str, Any]:
    """Give what a list of subscriptions shows of one."""
    return {
        "id": view["id"],
        "name": view["name"],
        "endpoint": endpoint(view),
        "status": view["status"],
        "health": health(view, now),
        "counts": counts(recent),
        "last": None if recent.last is None else attempt(recent.last, now),
    }


def is_webhook(view: Mapping[str, Any]) -> bool:
    """Report whether a subscription's deliveries go out by HTTP; others are jobs of a queue here, which no policy has part in."""
    return bool(view["endpoint"]["type"] == "webhook")


def endpoint(view: Mapping[str, Any]) -> str:
    """Give where a subscription's deliveries go."""
    given = view["endpoint"]
    return str(given["url"]) if is_webhook(view) else f"queue {given['queue']}"


def health(view: Mapping[str, Any], now: int) -> str:
    """Say how an endpoint does."""
    given = view["health"]
    said = [counted(given["failures"], "failure") + " in a row"] if given["failures"] else []
    if given["breaker"] != "closed":
        said.append(f"breaker {given['breaker'].replace('_', ' ')}")
    spared = at(given["spared_until"], now)
    if spared is not None:
        said.append(f"next request {spared.words}")
    return ", ".join(said) or "well"


def counts(recent: Recent) -> list[tuple[str, int]]:
    """Give how many of the last deliveries stand how, in the order of a delivery's life."""
    return [
        (status, recent.counts[status]) for status in (*STATUSES, UNREADABLE) if recent.counts.get(status)
    ]


def subscription_facts(view: Mapping[str, Any], now: int) -> list[tuple[str, str, Moment | None]]:
    """Give what a subscription's own page says of it, in order: a name, a text, an instant."""
    given = view["health"]
    asked = "an echoed token" if view["handshake"] == "token" else "a handshake of CloudEvents"
    of_webhook = [("Endpoint's health", health(view, now)), ("Way to confirm", asked)]
    texts = [
        ("Endpoint", endpoint(view)),
        ("Why it is held", view["reason"]),
        *(of_webhook if is_webhook(view) else ()),
        ("Dead deliveries go to", f"queue {view['dead_letter_queue']}" if view["dead_letter_queue"] else ""),
    ]
    times = [
        ("Failing since", given["failing_since"]),
        ("Made", view["created_at"]),
        ("Changed", view["changed_at"]),
        ("Ends", view["expires_at"]),
    ]
    found: list[tuple[str, str, Moment | None]] = [(name, text, None) for name, text in texts if text]
    return found + [(name, "", at(text, now)) for name, text in times if text is not None]


def delivery_row(view: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Give what a list of deliveries shows of one."""
    last = view["last_attempt"]
    return {
        "id": view["id"],
        "type": view["type"] or "",
        "status": view["status"],
        "why": (view["deferred_by"] or view["dead_reason"] or "").replace("_", " "),
        "attempts": view["attempts"],
        "next": _next(view, now),
        "last": None if last is None else attempt(last, now),
    }


def _next(view: Mapping[str, Any], now: int) -> Moment | None:
    """Give when the next attempt comes; None where that is not a matter of time."""
    found = None if view["deferred_by"] else instant_of(view["next_attempt_at"], "instant")
    return None if found is None else moment(max(found, now), now)


def attempt(view: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Give what is shown of one attempt."""
    came = view.get("status") or (view.get("error") or "").replace("_", " ")
    lasted = view.get("duration_ms")
    said = [_RESULTS[view["outcome"]], *([f"{came}"] if came else [])]
    next_at = at(view.get("next_attempt_at"), now)
    return {
        "number": view["number"],
        "good": view["outcome"] == "delivered",
        "words": ": ".join(said) + ("" if lasted is None else f" in {format_duration(lasted)}"),
        "when": at(view["started_at"], now),
        "next": next_at,
        "why": _CAUSES.get(view.get("next_cause") or "", "") if next_at else "",
        "to": " ".join(
            filter(None, (view.get("url"), f"({view['address']})" if view.get("address") else ""))
        ),
        "headers": sorted((view.get("response_headers") or {}).items()),
        "excerpt": cut(view.get("excerpt") or ""),
    }


def delivery_facts(view: Mapping[str, Any], now: int) -> list[tuple[str, str, Moment | None]]:
    """Give what a delivery's own page says of it, in order: a name, a text, an instant."""
    found: list[tuple[str, str, Moment | None]] = [
        ("Message", view["message_id"], None),
        ("Type", view["type"] or "", None),
        ("Made by", _TRIGGERS.get(view["trigger"], view["trigger"]), None),
        ("Held up by", view["deferred_by"] or "", None),
        ("Dead because", (view["dead_reason"] or "").replace("_", " "), None),
        ("Attempts", f"{view['attempts']:,}", None),
        ("Next attempt", "", _next(view, now)),
        ("No attempt after", "", at(view["deadline_at"], now)),
    ]
    return [one for one in found if one[1] or one[2]]
