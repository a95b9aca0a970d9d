"""Makes the request of one attempt: body, ids, signature."""

from __future__ import annotations

import msgspec

from anew import __version__
from anew.jobs.ids import IdText
from anew.topics.confirmation import TRIGGER
from anew.topics.documents import subscription_document
from anew.topics.envelope import body_of, headers_of
from anew.topics.exchange import Outgoing
from anew.topics.keys import opened, signing
from anew.topics.signing import sign
from anew.topics.taking import Assignment
from anew.topics.terms import TopicTerms


def outgoing(given: Assignment, terms: TopicTerms, ids: IdText, now: int) -> Outgoing:
    """Give the request of an attempt.

    Args:
        given: What is delivered.
        terms: What holds.
        ids: Writes public ids.
        now: When it is sent, epoch ms.

    Raises:
        InvalidConfig: The subscription's keys cannot be read.
    """
    request, message = given.policy.request, given.message
    if given.delivery.trigger == TRIGGER:
        document = subscription_document(given.subscription.document)
        if document.handshake == "cloudevents":
            return _question(given, terms)
    message_id = f"msg_{ids.write(message.id)}"
    body = body_of(message, request.body, message_id, terms.public_url)
    second = now // 1_000
    ring = opened(terms.box, given.subscription.keys, given.subscription.id)
    own = {
        "user-agent": f"Anew/{__version__}",
        "webhook-id": message_id,
        "webhook-timestamp": str(second),
        "webhook-signature": sign(signing(ring, now), message_id, second, body),
        "anew-topic": message.topic,
        "anew-subscription-id": f"sub_{ids.write(given.subscription.id)}",
        "anew-delivery-id": f"dlv_{ids.write(given.delivery.id)}",
        "anew-attempt": str(given.number),
    }
    if given.delivery.trigger in ("manual", "once"):
        own["anew-redelivery"] = "true"
    return Outgoing(
        url=given.subscription.endpoint,
        body=body,
        headers=headers_of(request, own),
        timeout_ms=request.timeout_ms,
        connect_timeout_ms=request.connect_timeout_ms,
    )


def _question(given: Assignment, terms: TopicTerms) -> Outgoing:
    """Give the request that asks for consent as CloudEvents has it."""
    data = msgspec.json.decode(given.message.data)
    headers = {"user-agent": f"Anew/{__version__}", "webhook-request-origin": terms.origin}
    if data.get("confirm_url"):
        headers["webhook-request-callback"] = data["confirm_url"]
    request = given.policy.request
    return Outgoing(
        url=given.subscription.endpoint,
        body=b"",
        headers=headers,
        timeout_ms=request.timeout_ms,
        connect_timeout_ms=request.connect_timeout_ms,
        method="OPTIONS",
    )
