"""What a receiver may be given: headers of any framework, bodies of any kind, bad secrets, forged requests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.message import Message
from typing import Any

import pytest

from anew.errors import AnewError, InvalidInput
from anew.topics.signing import sign
from anew.webhooks import InvalidSignature, TooOld, verify

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
OTHER = "whsec_" + "QUFB" * 10
PUBLIC = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
BODY = b'{"type":"order.paid","timestamp":"2023-11-14T22:13:20Z","data":{"id":42}}'
HMAC = "v1,kZBIJa++qTODHNJCZURnkUXYQjSuCfnO6Dsb5d4Hg70="
ED25519 = "v1a,v38NR98SLTFqCzg9WisIZltggofmt/0Wzja+ddK+xiMM5gRzArqVbrPVWIrgDSTN94XEqHQFzYLvoq50q1sqBQ=="
SENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def headers(signature: str = HMAC, **more: str) -> dict[str, str]:
    """The headers of the specification's example."""
    return {
        "webhook-id": "msg_0001",
        "webhook-timestamp": "1700000000",
        "webhook-signature": signature,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


# -- the vectors of the specification (notifications.md 3.6; checklist 35)


@pytest.mark.parametrize(("secret", "signature"), [(SECRET, HMAC), (PUBLIC, ED25519)])
def test_notifications_35_the_vectors_verify(secret: str, signature: str) -> None:
    event = verify(secret, headers(signature), BODY, now=SENT.timestamp())
    assert (event.id, event.type, event.data) == ("msg_0001", "order.paid", {"id": 42})
    assert event.timestamp == 1_700_000_000
    assert (event.topic, event.attempt, event.is_redelivery, event.challenge) == ("", 1, False, None)


# -- what is refused


@pytest.mark.parametrize(
    "spoil",
    [
        lambda h, b: (h, b + b" "),
        lambda h, b: (h, b.replace(b"42", b"43")),
        lambda h, b: (h | {"webhook-id": "msg_0002"}, b),
        lambda h, b: (h | {"webhook-timestamp": "1700000001"}, b),
        lambda h, b: (h | {"webhook-timestamp": "01700000000"}, b),
        lambda h, b: (h | {"webhook-timestamp": "x"}, b),
        lambda h, b: (h | {"webhook-timestamp": "١٧"}, b),
        lambda h, b: (h | {"webhook-signature": HMAC.replace("v1,", "v2,")}, b),
        lambda h, b: (h | {"webhook-signature": HMAC.replace("v1,", "v1a,")}, b),
        lambda h, b: (h | {"webhook-signature": HMAC.removeprefix("v1,")}, b),
        lambda h, b: (h | {"webhook-signature": "v1,"}, b),
        lambda h, b: (h | {"webhook-signature": "v1,é"}, b),
        lambda h, b: (h | {"webhook-signature": ED25519}, b),
        lambda h, b: ({name: value for name, value in h.items() if name != "webhook-id"}, b),
        lambda h, b: ({name: value for name, value in h.items() if name != "webhook-timestamp"}, b),
        lambda h, b: ({name: value for name, value in h.items() if name != "webhook-signature"}, b),
    ],
)  # fmt: skip
def test_what_was_tampered_with_is_refused(
    spoil: Callable[[dict[str, str], bytes], tuple[dict[str, str], bytes]],
) -> None:
    given, body = spoil(headers(), BODY)
    with pytest.raises(InvalidSignature) as refused:
        verify(SECRET, given, body, now=SENT.timestamp())
    assert refused.value.status == 401


@pytest.mark.parametrize("text", ["v1a,AAAA", "v1a,!", "v1a," + "A" * 88, HMAC])
def test_a_false_ed25519_signature_is_refused(text: str) -> None:
    with pytest.raises(InvalidSignature):
        verify(PUBLIC, headers(text), BODY, now=SENT.timestamp())


@pytest.mark.parametrize(
    ("skew_s", "tolerance", "is_refused"),
    [
        (300, "5m", False), (301, "5m", True), (-300, "5m", False), (-301, "5m", True),
        (30, 29.5, True), (30, timedelta(seconds=30), False), (1, 0, True), (0, 0, False),
    ],
)  # fmt: skip
def test_what_was_sent_too_long_ago_is_refused(skew_s: int, tolerance: Any, is_refused: bool) -> None:
    now = SENT.timestamp() + skew_s
    if not is_refused:
        assert verify(SECRET, headers(), BODY, tolerance=tolerance, now=now).id == "msg_0001"
        return
    with pytest.raises(TooOld, match=f" {abs(skew_s)} s from now"):
        verify(SECRET, headers(), BODY, tolerance=tolerance, now=now)


def test_an_old_request_that_is_not_signed_is_not_called_old() -> None:
    with pytest.raises(InvalidSignature) as refused:
        verify(OTHER, headers(), BODY, now=SENT.timestamp() + 86_400)
    assert not isinstance(refused.value, TooOld)


@pytest.mark.parametrize("tolerance", [-1, float("nan"), True, "5", None])
def test_a_tolerance_that_is_none_is_refused(tolerance: Any) -> None:
    with pytest.raises(InvalidInput, match="tolerance"):
        verify(SECRET, headers(), BODY, tolerance=tolerance, now=SENT.timestamp())


def test_the_errors_are_one_family() -> None:
    assert issubclass(TooOld, InvalidSignature)
    assert issubclass(InvalidSignature, AnewError)
    assert (InvalidSignature.code, TooOld.code, TooOld.status) == ("invalid_signature", "too_old", 401)


# -- secrets


@pytest.mark.parametrize(
    "secret",
    [
        "", "whsec_", SECRET.removeprefix("whsec_"), "whsec_!", "whsec_AAAA", "whpk_AAAA", "whsec_" + "A" * 200,
        PUBLIC.replace("whpk_", "whpk"), [], [SECRET, ""], None, [None], b"whsec_AAAA",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_refused_and_not_repeated(secret: Any) -> None:
    with pytest.raises(InvalidInput, match="secret: ") as refused:
        verify(secret, headers(), BODY, now=SENT.timestamp())
    text = str(secret)
    assert len(text) < 12 or text not in str(refused.value)


def test_notifications_38_an_error_does_not_say_the_secret() -> None:
    errors = []
    for now, signature in ((3_600, HMAC), (0, "v1,AAAA")):
        with pytest.raises(InvalidSignature) as refused:
            verify(SECRET, headers(signature), BODY, now=SENT.timestamp() + now)
        errors.append(repr(refused.value))
    assert not [error for error in errors if SECRET in error or SECRET[6:] in error]


def test_one_of_several_secrets_is_enough() -> None:
    assert verify([OTHER, SECRET], headers(), BODY, now=SENT.timestamp()).id == "msg_0001"
    assert verify((OTHER, PUBLIC), headers(f"{HMAC} {ED25519}"), BODY, now=SENT.timestamp()).id == "msg_0001"
    assert verify(SECRET, headers(f"v1,AAAA v9,x {HMAC}"), BODY, now=SENT.timestamp()).id == "msg_0001"


# -- headers and bodies, as they come


def _message() -> Message:
    message = Message()
    for name, value in headers().items():
        message[name.title()] = value
    return message


@pytest.mark.parametrize(
    "given",
    [
        {name.upper(): value for name, value in headers().items()},
        {name.encode(): value.encode() for name, value in headers().items()},
        [(name.title(), value) for name, value in headers().items()],
        [(name.encode(), value.encode()) for name, value in headers().items()],
        {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers().items()},
        _message(),
    ],
    ids=["upper", "bytes", "pairs", "asgi", "wsgi", "http.server"],
)
def test_headers_as_frameworks_give_them(given: Any) -> None:
    assert verify(SECRET, given, BODY, now=SENT.timestamp()).id == "msg_0001"


@pytest.mark.parametrize("body", [BODY, bytearray(BODY), memoryview(BODY)])
def test_a_body_in_several_forms(body: Any) -> None:
    assert verify(SECRET, headers(), body, now=SENT.timestamp()).data == {"id": 42}


@pytest.mark.parametrize("body", [{"type": "order.paid"}, None, 7, BODY.decode()])
def test_a_body_that_was_parsed_already_is_refused(body: Any) -> None:
    with pytest.raises(InvalidInput, match="bytes of the request"):
        verify(SECRET, headers(), body, now=SENT.timestamp())


def signed(body: bytes, **more: str) -> Mapping[str, str]:
    """Headers of a body that was signed just at the example's time."""
    return headers(sign([SECRET], "msg_0001", 1_700_000_000, body), **more)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 5_000])
def test_a_signed_body_that_is_no_json(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        verify(SECRET, signed(body), body, now=SENT.timestamp())


@pytest.mark.parametrize(
    ("body", "type_", "data"),
    [
        (b'{"id":42}', "", {"id": 42}),
        (b"[1]", "", [1]),
        (b'{"type":"a"}', "", {"type": "a"}),
        (b'{"type":1,"data":1}', "", {"type": 1, "data": 1}),
        (b'{"type":"a","timestamp":"2023-01-02T03:04:05Z","data":null}', "a", None),
        (b'{"specversion":"1.0","id":"x","source":"","type":"a","time":"2023-01-02T03:04:05Z","data":1}', "a", 1),
    ],
)  # fmt: skip
def test_the_forms_of_bodies(body: bytes, type_: str, data: object) -> None:
    event = verify(SECRET, signed(body), body, now=SENT.timestamp())
    assert (event.type, event.data) == (type_, data)


def test_what_the_other_headers_say() -> None:
    more = {"anew_topic": "orders", "anew_attempt": "3", "anew_redelivery": "true"}
    event = verify(SECRET, signed(BODY, **more), BODY, now=SENT.timestamp())
    assert (event.topic, event.attempt, event.is_redelivery) == ("orders", 3, True)
    assert verify(SECRET, signed(BODY, anew_attempt="many"), BODY, now=SENT.timestamp()).attempt == 1


def test_the_challenge_of_one_who_gets_the_data_as_published() -> None:
    body = b'{"challenge":"c","confirm_url":null,"topic":"orders","subscription_id":"sub_1"}'
    assert verify(SECRET, signed(body), body, now=SENT.timestamp()).challenge == "c"


def test_the_challenge_of_a_confirmation() -> None:
    body = b'{"type":"anew.subscription.confirmation","timestamp":"2023-01-02T03:04:05Z","data":{"challenge":"c"}}'
    assert verify(SECRET, signed(body), body, now=SENT.timestamp()).challenge == "c"


def test_a_receiver_needs_no_other_package() -> None:
    code = f"""
import sys
for name in ("aiohttp", "cryptography", "idna"):
    sys.modules[name] = None
from anew.webhooks import verify
print(verify({SECRET!r}, {headers()!r}, {BODY!r}, now=1700000000).type)
print("anew.engine" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["order.paid", "False"]
