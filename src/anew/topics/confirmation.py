"""The question whether an endpoint wants a topic's messages, and its answer: an echo, a visit, or the owner's word.

A delivery of its own asks. The token is a keyed hash of the subscription and a nonce, so that what is stored does not tell it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

import msgspec
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.errors import Expired
from anew.store.topics import DeliveryRow, MessageRow, SubscriptionRow, TopicRow
from anew.topics.delivery_policy import effective, layer_of
from anew.topics.documents import CONFIRMATION, subscription_document
from anew.topics.exchange import Answer
from anew.topics.publishing import delivery_job
from anew.topics.terms import TopicTerms, holding, holding_for
from anew.units import DAY_MS

KEPT_MS: Final = 2 * DAY_MS
"""How long a token can be used."""

TRIGGER: Final = "confirmation"
"""What the deliveries of questions are marked with."""

_token = re.compile(r"([0-9a-f]{16})-([0-9a-f]{64})").fullmatch
_rate = re.compile(r"0*[1-9][0-9]{0,5}").fullmatch
"""Deliveries a minute; whoever grants more sets no bound."""

_RETRY: Final = effective([("", layer_of({"retry": {"schedule": [5, 30, 300, 1_800]}}))])[0].retry
"""How the question is asked again."""


def ask(batch: Batch, terms: TopicTerms, topic: TopicRow, row: SubscriptionRow) -> None:
    """Send the question, in an open transaction."""
    key, job = batch.keys_for(2)
    token = token_of(batch, row)
    data = {
        "challenge": token,
        "confirm_url": f"{terms.public_url}/v1/confirm/{token}" if terms.public_url else None,
        "topic": row.topic,
        "subscription_id": f"sub_{batch.ids.write(row.id)}",
    }
    message = MessageRow(
        id=key,
        topic=row.topic,
        type=CONFIRMATION,
        attributes=None,
        data=msgspec.json.encode(data),
        published_at=batch.now,
        due_at=batch.now,
        ends_at=batch.now + KEPT_MS,
        purge_at=batch.now + KEPT_MS,
    )
    above = holding_for(terms.policy, topic.document, row.document)
    held = holding(replace(above.policy, retry=_RETRY), above.sources)
    rows = batch.store.topics
    rows.write_messages([message])
    delivery = DeliveryRow(
        id=job,
        message=key,
        subscription=row.id,
        job=job,
        policy=rows.policy_number(held.document),
        trigger=TRIGGER,
    )
    rows.add_deliveries([delivery])
    batch.insert([delivery_job(batch, terms, delivery, message, row, held)], keys=[job])


def token_of(batch: Batch, row: SubscriptionRow) -> str:
    """Give the token by which a subscription that was asked is confirmed."""
    nonce = subscription_document(row.document).nonce
    content = f"confirm {row.id} {nonce}".encode()
    return f"{row.id:016x}-{hashlib.blake2b(content, key=batch.store.identity.secret, digest_size=32).hexdigest()}"


def subscription_of(batch: Batch, token: str) -> SubscriptionRow:
    """Find the subscription that a token confirms.

    Raises:
        Expired: There is none: it was used, is older than two days, or is no token.
    """
    found = _token(token)
    id_ = int(found[1], 16) if found else -1
    row = batch.store.topics.subscriptions([id_], batch.now).get(id_) if id_ < 1 << 63 else None
    if row is not None and row.status == "unconfirmed":
        document = subscription_document(row.document)
        fresh = document.nonce and batch.now < document.asked_at + KEPT_MS
        if fresh and hmac.compare_digest(token_of(batch, row), token):
            return row
    raise Expired("this confirmation was used already, or is over; ask for another one")


def is_echo(answer: Answer, token: str) -> bool:
    """Report whether an endpoint has echoed the challenge, in a header or as JSON."""
    given = answer.headers.get("webhook-challenge", "").strip()
    if not given:
        try:
            body = msgspec.json.decode(answer.excerpt)
        except (msgspec.DecodeError, ValueError, RecursionError):  # as deep as an excerpt is long
            return False
        given = str(body.get("challenge", "")) if isinstance(body, dict) else ""
    return hmac.compare_digest(given.encode(), token.encode())


def granted_rate(answer: Answer, origin: str) -> tuple[bool, float | None]:
    """Report whether an endpoint has consented as CloudEvents has it, and how many deliveries a second it grants."""
    allowed = answer.headers.get("webhook-allowed-origin", "").strip()
    if allowed not in ("*", origin):
        return False, None
    rate = answer.headers.get("webhook-allowed-rate", "").strip()
    return True, int(rate) / 60 if _rate(rate) else None
