"""What an owner does with a subscription: confirm it, hold it and let it go on, rotate its secret, have things sent again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Literal

from msgspec import UNSET

from anew.engine.batch import Batch
from anew.errors import InvalidInput
from anew.jobs.ids import COUNTER_BITS
from anew.topics import asked, redelivery, registry
from anew.topics.bodies import ReplayBody, RotationBody, TurnBody
from anew.topics.keys import MOST_OVERLAP_MS
from anew.topics.signing import check_secret
from anew.topics.terms import TopicTerms
from anew.topics.views import View, subscription_view

LAST_ID_AT: Final = (1 << 63 - COUNTER_BITS) - 1
"""The last instant, epoch ms, that the id of a message can have."""

Turn = Literal["pause", "resume", "disable", "enable"]
Action = Literal["confirm", "pause", "resume", "disable", "enable", "rotate", "replay", "delete"]
ABOUT: Final[dict[Action, str]] = {
    "confirm": "Confirm a subscription by its owner's word, or by its token.",
    "pause": "Hold the deliveries of a subscription.",
    "resume": "Let the deliveries of a paused subscription go on, oldest first.",
    "disable": "Hold the deliveries of a subscription until it is enabled; messages published meanwhile make none.",
    "enable": "Let the deliveries of a disabled subscription go on, oldest first; its failures are forgotten.",
    "rotate": "Give a subscription a new secret; the old one signs beside it for `overlap` seconds.",
    "replay": "Send a subscription again what has failed, or what it has missed, since an instant.",
    "delete": "Remove a subscription, and cancel what waits for it.",
}
"""What each does."""

Steering = Callable[[Batch], View]
"""A verb that gives what is shown of it; see `steer`."""


def steer(
    terms: TopicTerms, subscription: int, action: Action, body: bytes, chance: Callable[[int], bytes]
) -> Steering:
    """Give the verb of an action.

    Args:
        terms: What holds for topics.
        subscription: Its key.
        action: What is done.
        body: JSON of a `TurnBody`, a `RotationBody` for "rotate", a `ReplayBody` for "replay"; empty: the defaults.
        chance: Gives so many random bytes.

    Returns:
        A verb that gives the subscription as it is then, its new secret, the id of the task that sends again, or {} where it is
        gone. It raises NotFound, and Conflict where the subscription's status does not allow it.

    Raises:
        InvalidInput: The body does not fit; the field is a JSON pointer.
    """
    match action:
        case "confirm":
            token = asked.decoded(body, TurnBody, optional=True).token
            confirm = (
                registry.confirm(terms, subscription)
                if token is UNSET
                else registry.confirm_by(terms, token, subscription)
            )
            return lambda batch: subscription_view(batch, confirm(batch), terms)
        case "rotate":
            return _rotate(terms, subscription, asked.decoded(body, RotationBody, optional=True), chance)
        case "replay":
            return _replay(terms, subscription, asked.decoded(body, ReplayBody))
        case "delete":
            return _delete(subscription)
        case _:
            return _turn(terms, subscription, action, asked.decoded(body, TurnBody, optional=True))


def _turn(terms: TopicTerms, subscription: int, action: Turn, body: TurnBody) -> Steering:
    since = moment(body.replay_missed_since, "/replay_missed_since")
    turn = registry.turn(terms, subscription, action, body.reason, release=body.release)

    def verb(batch: Batch) -> View:
        if since is not None:
            _check_recent(batch, since, "/replay_missed_since")
        row = turn(batch)
        if action == "enable" and since is not None:
            chosen = redelivery.Selection(subscription=subscription, since=since)
            redelivery.start(terms, redelivery.TaskDocument(selection=chosen, include="missed"))(batch)
        return subscription_view(batch, row, terms)

    return verb


def _delete(subscription: int) -> Steering:
    drop = registry.drop_subscription(subscription)

    def verb(batch: Batch) -> View:
        drop(batch)
        return {}

    return verb


def _rotate(
    terms: TopicTerms, subscription: int, body: RotationBody, chance: Callable[[int], bytes]
) -> Steering:
    if body.secret is not None:
        check_secret(body.secret)
    if not 0 <= body.overlap * 1_000 <= MOST_OVERLAP_MS:
        raise InvalidInput(f"/overlap: expected 0 to 604800 seconds, got {body.overlap}", field="/overlap")
    rotate = registry.rotate(terms, subscription, body.secret, body.overlap * 1_000, chance)
    return lambda batch: asked.secret_view(rotate(batch).current)


def _replay(terms: TopicTerms, subscription: int, body: ReplayBody) -> Steering:
    include = asked.choice(body.include, "/include", ("failed", "missed", "all"))
    since, until = moment(body.since, "/since"), moment(body.until, "/until")
    assert since is not None
    chosen = redelivery.Selection(subscription=subscription, since=since, until=until)
    begin = redelivery.start(terms, redelivery.TaskDocument(selection=chosen, include=include))

    def verb(batch: Batch) -> View:
        _check_recent(batch, since, "/since")
        return {"task_id": f"tsk_{batch.ids.write(begin(batch).id)}"}

    return verb


def _check_recent(batch: Batch, since: int, pointer: str) -> None:
    if since < batch.now - redelivery.LONGEST_REPLAY_MS:
        raise InvalidInput(f"{pointer}: expected an instant of the last 14 days", field=pointer)


def moment(text: str | None, pointer: str) -> int | None:
    """Read an instant, RFC 3339 or epoch ms; one outside of those that ids can have is the nearest of these.

    Raises:
        InvalidInput: It is neither; the field is the pointer.
    """
    if text is None:
        return None
    if text.isdecimal() and len(text) <= 15:
        return min(int(text), LAST_ID_AT)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidInput(
            f"{pointer}: expected an instant such as 2027-01-01T00:00:00Z, got {text!r:.60}", field=pointer
        )
    return min(max(int(found.timestamp() * 1_000), 0), LAST_ID_AT)
