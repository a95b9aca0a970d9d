"""Signatures against the vectors and the libraries of others. Numbers are the checklist's of the notification specification."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime

import pytest
import standardwebhooks
import svix.webhooks
from hypothesis import given
from hypothesis import strategies as st

from anew.topics.exchange import Answer
from anew.topics.redelivery import redeliver
from anew.topics.sending import outgoing
from anew.topics.signing import is_signed, public_key, sign
from anew.topics.taking import Assignment
from tests.unit.topics.rig import NOW, OK, Topics, policy

# The vectors of 3.6: the bytes 00 to 1f as a secret, and as the seed of an ed25519 key.
SEED = bytes(range(32))
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PUBLIC = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
PRIVATE = "whsk_" + base64.b64encode(SEED + base64.b64decode(PUBLIC.removeprefix("whpk_"))).decode()
BODY = b'{"type":"order.paid","timestamp":"2023-11-14T22:13:20Z","data":{"id":42}}'
HMAC = "v1,kZBIJa++qTODHNJCZURnkUXYQjSuCfnO6Dsb5d4Hg70="
ED25519 = "v1a,v38NR98SLTFqCzg9WisIZltggofmt/0Wzja+ddK+xiMM5gRzArqVbrPVWIrgDSTN94XEqHQFzYLvoq50q1sqBQ=="
ID, AT_S = "msg_0001", 1_700_000_000
OTHER = "whsec_" + base64.b64encode(b"x" * 24).decode()

secrets = st.binary(min_size=24, max_size=64).map(lambda raw: "whsec_" + base64.b64encode(raw).decode())
ids = st.from_regex(r"msg_[A-Za-z0-9]{1,40}", fullmatch=True)
texts = st.text().map(str.encode)


# -- what is signed


@given(ids, texts, secrets)
def test_notifications_35_libraries_accept_what_is_signed(message_id: str, body: bytes, secret: str) -> None:
    second = int(time.time())  # the libraries look at the machine's clock
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(second),
        "webhook-signature": sign([OTHER, secret], message_id, second, body),
    }
    standardwebhooks.Webhook(secret).verify(body, headers, json_parse=False)
    svix.webhooks.Webhook(secret).verify(body, headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(body + b" ", headers, json_parse=False)


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, svix.webhooks.Webhook])
@given(ids, texts, secrets)
def test_what_libraries_sign_verifies(library: type, message_id: str, body: bytes, secret: str) -> None:
    header = library(secret).sign(message_id, datetime.fromtimestamp(AT_S, UTC), body.decode())
    assert header == sign([secret], message_id, AT_S, body)
    assert is_signed(header, [secret], message_id, str(AT_S), body)


@given(ids, st.integers(0, 10**12), st.binary(), st.lists(secrets, min_size=1, max_size=10, unique=True))
def test_each_key_verifies_alone_and_their_order_is_kept(
    message_id: str, second: int, body: bytes, keys: list[str]
) -> None:
    keys = [PRIVATE, *keys]
    header = sign(keys, message_id, second, body)
    assert header.split(" ") == [sign([key], message_id, second, body) for key in keys]
    for key in [PUBLIC, *keys]:
        assert is_signed(header, [key], message_id, str(second), body)


# -- what is not


@given(st.binary(min_size=1), st.data())
def test_a_body_with_one_bit_changed_does_not_verify(body: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(body) * 8 - 1))
    changed = bytearray(body)
    changed[place // 8] ^= 1 << place % 8
    header = sign([SECRET, PRIVATE], ID, AT_S, body)
    assert not is_signed(header, [SECRET, PUBLIC], ID, str(AT_S), bytes(changed))


@pytest.mark.parametrize("key", [SECRET, PRIVATE])
def test_dots_cannot_move_from_a_body_into_an_id(key: str) -> None:
    """The same bytes are signed, so the signature itself would be right."""
    header = sign([key], ID, AT_S, b"1700000300.rest")
    verifier = public_key(key) or key
    assert is_signed(header, [verifier], ID, str(AT_S), b"1700000300.rest")
    assert not is_signed(header, [verifier], f"{ID}.{AT_S}", "1700000300", b"rest")
    assert not is_signed(header, [verifier], ID, f"{AT_S}.1700000300", b"rest")


@pytest.mark.parametrize("text", ["\udcff", "\xff", "\0"], ids=ascii)
def test_headers_that_are_no_text_are_refused_without_an_error(text: str) -> None:
    """aiohttp gives bytes that are no UTF-8 as lone surrogates."""
    for key in (SECRET, PUBLIC):
        assert not is_signed(f"v1,{text} v1a,{text} {text}", [key], ID, str(AT_S), BODY)
        assert not is_signed(HMAC, [key], ID + text, str(AT_S), BODY)
        assert not is_signed(HMAC, [key], ID, text, BODY)


@given(st.text(), st.text(), st.text(), st.binary())
def test_what_nobody_signed_never_verifies_and_never_raises(
    header: str, message_id: str, timestamp: str, body: bytes
) -> None:
    assert not is_signed(header, [SECRET, PUBLIC], message_id, timestamp, body)


# -- what a dispatcher sends


def test_notifications_36_the_id_stays_and_time_and_signature_are_those_of_the_attempt() -> None:
    topics = Topics()
    topics.topic()
    subscribed = topics.subscribe(delivery_policy=policy(retry={"schedule": [5, 300]}))
    assert subscribed.ring is not None
    sent = []

    def endpoint(given: Assignment) -> Answer:
        now = topics.clock.now()
        request = outgoing(given, topics.terms, topics.engine.ids, now)
        sent.append((now, request))
        return OK if len(sent) > 2 else Answer(status=500)

    topics.answers["https://a.example/hook"] = endpoint
    topics.publish({"id": 42})
    topics.run()
    topics.clock.advance(60_000)
    (delivery,) = topics.deliveries()
    topics.do(redeliver(topics.terms, delivery.id, force=True))
    topics.run()

    assert [now - NOW for now, _ in sent] == [0, 5_000, 305_000, 365_000]
    assert len({request.headers["webhook-id"] for _, request in sent}) == 1
    assert len({request.headers["webhook-timestamp"] for _, request in sent}) == 4
    assert len({request.headers["webhook-signature"] for _, request in sent}) == 4
    assert len({request.body for _, request in sent}) == 1
    for now, request in sent:
        second = request.headers["webhook-timestamp"]
        assert abs(int(second) * 1_000 - now) < 2_000
        header, message_id = request.headers["webhook-signature"], request.headers["webhook-id"]
        assert "." not in message_id
        assert is_signed(header, [subscribed.ring.current], message_id, second, request.body)
    assert [request.headers.get("anew-redelivery") for _, request in sent] == [None, None, None, "true"]
