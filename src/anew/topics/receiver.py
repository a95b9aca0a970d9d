"""What a receiver of webhooks does with a request: the type, the signature, the confirmation, and an answer by a script.

Pure: time arrives as an argument, and nothing is sent from here. `anew.topics.receiver_server` has the sockets.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from anew.errors import InvalidInput, NotSupported
from anew.topics.signing import is_signed
from anew.units import format_duration, refused

CONFIRMATION: Final = "anew.subscription.confirmation"
"""The type of the request that asks whether a subscription is wanted."""

MAX_BODY: Final = 1 << 20
"""Bytes of a body; a longer one is answered with 413."""

TOLERANCE_MS: Final = 300_000
"""How far the time of a signature may be from now; five minutes, as Standard Webhooks recommends."""

_SLOW_S: Final = 5.0
_LONGEST_S: Final = 86_400
_CHALLENGE: Final = 1_024
_MEMORY: Final = 100_000
"""So many ids are remembered, to notice those that come again; and a hundredth as many types."""

Signature = Literal["good", "bad", "old", "missing", "unchecked"]
"""``old``: right, but made too long ago, or for a later time. ``unchecked``: there is no secret to check it with."""

Ending = Literal["answer", "drop", "hang"]


class Reply(Struct, frozen=True, kw_only=True):
    """What is answered.

    Attributes:
        status: Of HTTP; None where nothing is answered.
        headers: Further ones.
        body: The bytes; its type is JSON where there are any.
        wait_ms: So long before.
        ending: ``drop`` closes the connection without an answer; ``hang`` waits until the other side closes it.
    """

    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    wait_ms: int = 0
    ending: Ending = "answer"

    def words(self) -> str:
        """Say it on one line."""
        if self.status is None:
            return "no answer: closed" if self.ending == "drop" else "no answer: left open"
        wait = f"after {format_duration(self.wait_ms)}: " if self.wait_ms else ""
        headers = "".join(f", {name}: {value}" for name, value in self.headers.items())
        return f"{wait}{self.status}{headers}{', challenge echoed' if self.body else ''}"


class Incoming(Struct, frozen=True, kw_only=True):
    """A request as it came.

    Attributes:
        method, target: Of its first line; the target is path and query.
        headers: By lower-case name; of several with one name the first.
        body: None where it was longer than `MAX_BODY`.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


class Arrival(Struct, frozen=True, kw_only=True):
    """A request, what is known of it, and its answer.

    Attributes:
        at: When it came, epoch ms.
        incoming: The request.
        type: Of the message; empty where it has none.
        signature: Whether it is good.
        repeated: Whether one with the same id came before.
        reply: The answer.
    """

    at: int
    incoming: Incoming
    type: str
    signature: Signature
    repeated: bool
    reply: Reply


# -- the script


def read_script(texts: Iterable[str]) -> tuple[Reply, ...]:
    """Read answers from comma lists such as ``503,429:30,slow:2,200``.

    Raises:
        InvalidInput: One of them is not an answer.
    """
    return tuple(_step(part.strip()) for text in texts for part in text.split(","))


_WORDS: Final = {
    "drop": Reply(ending="drop"),
    "hang": Reply(ending="hang"),
    "disable": Reply(status=200, headers={"webhook-delivery": "disable"}),
    "abort": Reply(status=400, headers={"webhook-delivery": "abort-message"}),
}
_STATUS: Final = re.compile(r"([2-9][0-9]{2})(?::([0-9]{1,9}))?")
_SECONDS: Final = re.compile(r"[0-9]{1,5}(\.[0-9]{1,3})?")
_URL: Final = re.compile(r"[\x21-\x7e]{1,2048}")
_EXPECTED: Final = (
    "a status from 200 to 999 such as 503, 429:30 (with Retry-After), slow, slow:5, drop, hang, disable, abort, "
    "or redirect:URL"
)


def _step(text: str) -> Reply:
    word, _, rest = text.partition(":")
    if text in _WORDS:
        return _WORDS[text]
    if status := _STATUS.fullmatch(text):
        return Reply(status=int(status[1]), headers={"retry-after": status[2]} if status[2] else {})
    if text == "slow":
        return Reply(status=200, wait_ms=int(_SLOW_S * 1_000))
    if word == "slow" and _SECONDS.fullmatch(rest) and float(rest) <= _LONGEST_S:
        return Reply(status=200, wait_ms=round(float(rest) * 1_000))
    if word == "redirect" and _URL.fullmatch(rest):
        return Reply(status=302, headers={"location": rest})
    raise refused("--answer", text, _EXPECTED)


class Script:
    """Gives the answers one after the other.

    Args:
        steps: At least one.
        loop: Begin again after the last one; else the last one repeats.
    """

    def __init__(self, steps: Sequence[Reply], *, loop: bool = False) -> None:
        self._steps = steps
        self._loop = loop
        self._given = 0

    def next(self) -> Reply:
        """Give the next answer."""
        number, count = self._given, len(self._steps)
        self._given += 1
        return self._steps[number % count if self._loop else min(number, count - 1)]


# -- the signature


def read_secrets(texts: Iterable[str], field: str) -> tuple[str, ...]:
    """Read secrets and public keys, separated by blanks, commas or lines.

    Args:
        texts: What was given; ``whsec_`` and base64 of 24 to 64 bytes, or ``whpk_`` and base64 of 32.
        field: Where, for errors, which never repeat a secret.

    Raises:
        InvalidInput: One of them is neither.
    """
    found = [word for text in texts for word in text.replace(",", " ").split()]
    for place, word in enumerate(found, 1):
        key = _raw(word)
        size = len(key or b"")
        if not (24 <= size <= 64 if word.startswith("whsec_") else word.startswith("whpk_") and size == 32):
            raise InvalidInput(
                f"{field}: number {place} is not a secret; expected whsec_ and base64 of 24 to 64 bytes, or the public "
                "key whpk_ and base64 of 32 bytes",
                field=field,
            )
    return tuple(dict.fromkeys(found))


def _raw(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.partition("_")[2], validate=True)
    except (binascii.Error, ValueError):
        return None


def verify(header: str, secrets: Iterable[str], message_id: str, timestamp: str, body: bytes) -> bool:
    """Report whether a header has a signature by one of some secrets or public keys, as Standard Webhooks has it.

    What is signed is id, timestamp and body, with dots between them.

    Args:
        header: ``v1,BASE64`` and ``v1a,BASE64``, with blanks between them.
        secrets: Checked ones; see `read_secrets`.
        message_id, timestamp, body: As they came.

    Raises:
        NotSupported: One is a public key, and the package that checks those is not installed.
    """
    try:
        return is_signed(header, secrets, message_id, timestamp, body)
    except ModuleNotFoundError as error:
        raise NotSupported(
            "cryptography is not installed, which checks signatures with whpk_ keys: pip install 'anew[webhooks]'"
        ) from error


def check_signature(secrets: Sequence[str], incoming: Incoming, now: int) -> Signature:
    """Judge a request's signature.

    Args:
        secrets: Checked ones, of which one has to fit; none: nothing is checked.
        incoming: The request.
        now: Epoch ms.
    """
    if not secrets or incoming.method != "POST":
        return "unchecked"
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    message_id, timestamp, signatures = (incoming.headers.get(name, "") for name in names)
    if not (message_id and timestamp and signatures):
        return "missing"
    # Of a body that is too long nothing can be said.
    if incoming.body is None or not re.fullmatch(r"[0-9]{1,15}", timestamp):
        return "bad"
    if not verify(signatures, secrets, message_id, timestamp, incoming.body):
        return "bad"
    return "good" if abs(int(timestamp) * 1_000 - now) <= TOLERANCE_MS else "old"


# -- the confirmation


def confirmation(document: Any) -> str | None:
    """Find the challenge of a request that asks whether a subscription is wanted; None where it is none.

    Args:
        document: The body's JSON value. The challenge stands in its ``data``; at its top where the subscription has
            its data sent as published, without a type.
    """
    if not isinstance(document, dict):
        return None
    bare = "type" not in document and "subscription_id" in document
    data = document.get("data") if document.get("type") == CONFIRMATION else None
    for place in (data, document if bare or document.get("type") == CONFIRMATION else None):
        challenge = place.get("challenge") if isinstance(place, dict) else None
        if isinstance(challenge, str) and 0 < len(challenge) <= _CHALLENGE:
            return challenge
    return None


def consent(headers: Mapping[str, str]) -> Reply:
    """Answer the OPTIONS request by which a sender of CloudEvents asks whether it may send.

    Source: CloudEvents, HTTP 1.1 Web Hooks, 4.1 and 4.2.

    Args:
        headers: Of the request, by lower-case name.
    """
    answer = {"allow": "POST, OPTIONS"}
    if origin := headers.get("webhook-request-origin"):
        answer["webhook-allowed-origin"] = origin
        if rate := headers.get("webhook-request-rate"):
            answer["webhook-allowed-rate"] = rate
    return Reply(status=200, headers=answer)


# -- all of it


class Receiver:
    """Judges requests, chooses answers, and counts.

    Args:
        script: The answers to messages. Confirmations, OPTIONS and what is refused take none of them.
        secrets: Checked ones; see `read_secrets`.
        confirm: Confirm subscriptions that ask; else they are answered by the script, as a message is.
    """

    def __init__(self, script: Script, *, secrets: Sequence[str] = (), confirm: bool = True) -> None:
        self._script = script
        self._secrets = secrets
        self._confirm = confirm
        self.tally = Tally()

    def receive(self, incoming: Incoming, now: int) -> Arrival:
        """Judge a request and choose its answer.

        Args:
            incoming: The request.
            now: Epoch ms.
        """
        document = _json(incoming.body)
        kind = document.get("type") if isinstance(document, dict) else None
        kind = kind if isinstance(kind, str) else incoming.headers.get("ce-type", "")
        signature = check_signature(self._secrets, incoming, now)
        arrival = Arrival(
            at=now,
            incoming=incoming,
            type=kind,
            signature=signature,
            repeated=self.tally.knows(incoming.headers.get("webhook-id", "")),
            reply=self._reply(incoming, confirmation(document), signature),
        )
        self.tally.add(arrival)
        return arrival

    def _reply(self, incoming: Incoming, challenge: str | None, signature: Signature) -> Reply:
        if incoming.method == "OPTIONS":
            return consent(incoming.headers if self._confirm else {})
        if incoming.method != "POST":
            return Reply(status=405, headers={"allow": "POST, OPTIONS"})
        if incoming.body is None:
            return Reply(status=413)
        if challenge is None or not self._confirm:
            return self._script.next()
        if signature in ("good", "unchecked"):
            return Reply(status=200, body=msgspec.json.encode({"challenge": challenge}))
        # Who cannot be recognised gets no consent.
        return Reply(status=401)


def _json(body: bytes | None) -> Any:
    try:
        return msgspec.json.decode(body or b"")
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None


class Tally:
    """Counts what came.

    Attributes:
        received: Requests.
        types: Messages by type.
        repeated: Requests whose id had come before.
        bad_signatures: Bad, old and missing ones.
    """

    def __init__(self) -> None:
        self.received = 0
        self.types: Counter[str] = Counter()
        self.repeated = 0
        self.bad_signatures = 0
        self._ids: OrderedDict[str, None] = OrderedDict()

    def knows(self, message_id: str) -> bool:
        """Report whether an id has come before; of very many the oldest are forgotten."""
        return message_id in self._ids

    def add(self, arrival: Arrival) -> None:
        """Count one more."""
        self.received += 1
        self.repeated += arrival.repeated
        self.bad_signatures += arrival.signature in ("bad", "old", "missing")
        if arrival.incoming.method == "POST":
            known = arrival.type in self.types or len(self.types) < _MEMORY // 100
            self.types[arrival.type if known else "(others)"] += 1
        if message_id := arrival.incoming.headers.get("webhook-id", ""):
            self._ids[message_id] = None
            self._ids.move_to_end(message_id)
            if len(self._ids) > _MEMORY:
                self._ids.popitem(last=False)
