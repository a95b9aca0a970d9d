"""The receiver's side, and what is signed, against the vectors of the specification and the packages of others."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
import standardwebhooks
import svix.webhooks
from multidict import CIMultiDict
from starlette.datastructures import Headers as StarletteHeaders
from werkzeug.datastructures import EnvironHeaders
from werkzeug.datastructures import Headers as WerkzeugHeaders

from anew.errors import Conflict, InvalidConfig, InvalidInput
from anew.topics.keys import Box, Key, KeyRing, load_or_make_secret, new_ring, rotated, signing
from anew.topics.signing import check_secret, is_signed, new_secret, public_key, sign
from anew.webhooks import InvalidSignature, TooOld, verify

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PUBLIC = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
BODY = b'{"type":"order.paid","timestamp":"2023-11-14T22:13:20Z","data":{"id":42}}'
AT = 1_700_000_000
V1 = "v1,kZBIJa++qTODHNJCZURnkUXYQjSuCfnO6Dsb5d4Hg70="
V1A = "v1a,v38NR98SLTFqCzg9WisIZltggofmt/0Wzja+ddK+xiMM5gRzArqVbrPVWIrgDSTN94XEqHQFzYLvoq50q1sqBQ=="
"""The vectors of the notification specification, 3.6."""


def seeded(number: int) -> bytes:
    return bytes(range(number))


PRIVATE = new_secret("ed25519", seeded)


def headers(signature: str, **more: str) -> dict[str, str]:
    return {"webhook-id": "msg_0001", "webhook-timestamp": str(AT), "webhook-signature": signature, **more}


def test_notifications_35_the_vectors() -> None:
    assert new_secret("hmac", seeded) == SECRET
    assert public_key(PRIVATE) == PUBLIC
    assert sign([SECRET], "msg_0001", AT, BODY) == V1
    assert sign([PRIVATE, SECRET], "msg_0001", AT, BODY) == f"{V1A} {V1}"


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, svix.webhooks.Webhook])
def test_notifications_35_what_is_signed_here_is_accepted_by_others_and_the_reverse(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    stamp = int(now.timestamp())
    theirs = library(SECRET)
    own = headers(sign([SECRET], "msg_0001", stamp, BODY)) | {"webhook-timestamp": str(stamp)}
    assert theirs.verify(BODY.decode(), own) in (None, json.loads(BODY))  # raises where it does not fit
    with pytest.raises(Exception, match="signature"):
        theirs.verify(BODY.decode() + " ", own)
    signature = theirs.sign("msg_0001", now, BODY.decode())
    assert verify(SECRET, own | {"webhook-signature": signature}, BODY).data == {"id": 42}


@pytest.mark.parametrize(("secret", "signature"), [(SECRET, V1), (PUBLIC, V1A), (PRIVATE, V1A)])
def test_an_event_is_read(secret: str, signature: str) -> None:
    more = {"anew-topic": "orders", "anew-attempt": "3", "anew-redelivery": "true"}
    given = {name.title(): value for name, value in headers(f"v9,x {signature}", **more).items()}
    event = verify(secret, given, BODY, now=AT)
    assert (event.id, event.type, event.data, event.topic) == ("msg_0001", "order.paid", {"id": 42}, "orders")
    assert (event.attempt, event.is_redelivery, event.timestamp, event.body) == (3, True, AT, BODY)


def test_headers_may_be_bytes_and_secrets_several() -> None:
    given = {name.encode(): value.encode() for name, value in headers(V1).items()}
    other = new_secret("hmac", lambda number: b"x" * number)
    assert verify([other, SECRET], given, BODY, now=AT).type == "order.paid"


def test_a_body_that_is_no_envelope_is_data() -> None:
    body = b"[1,2]"
    assert verify(SECRET, headers(sign([SECRET], "msg_0001", AT, body)), body, now=AT).data == [1, 2]


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({"webhook-signature": "v1,AAAA"}, BODY),
        ({"webhook-signature": V1[:-2]}, BODY),
        ({"webhook-signature": V1.replace("v1,", "v1a,")}, BODY),
        ({"webhook-signature": ""}, BODY),
        ({"webhook-id": "msg_0002"}, BODY),
        ({"webhook-timestamp": str(AT + 1)}, BODY),
        ({}, BODY + b" "),
        ({"webhook-id": f"msg_0001.{AT}", "webhook-timestamp": BODY.decode()[:5]}, BODY[5:]),
    ],
)
def test_what_was_changed_is_refused(changed: dict[str, str], body: bytes) -> None:
    with pytest.raises(InvalidSignature) as caught:
        verify(SECRET, headers(V1) | changed, body, now=AT)
    assert SECRET not in str(caught.value)


def test_what_is_old_or_from_the_future_is_refused() -> None:
    for now in (AT + 301, AT - 301):
        with pytest.raises(TooOld):
            verify(SECRET, headers(V1), BODY, now=now)
    assert verify(SECRET, headers(V1), BODY, now=AT + 300).data == {"id": 42}
    assert verify(SECRET, headers(V1), BODY, now=AT + 3_600, tolerance="1h").data == {"id": 42}


@pytest.mark.parametrize(
    "secret",
    [
        "", "whsec_", "whsec_!!!", "whsec_" + base64.b64encode(bytes(23)).decode(), "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsk_" + base64.b64encode(bytes(64)).decode(), "whsk_" + base64.b64encode(bytes(32)).decode(), "secret",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_secret(secret)
    assert len(secret) < 10 or secret not in str(caught.value)


@pytest.mark.parametrize(
    "key", ["whpk_", "whpk_!!!", "whpk_AAAA", PUBLIC + "=", PUBLIC.rstrip("="), "whpk_" + "é" * 40]
)
def test_what_is_no_public_key_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(InvalidInput, match=r"^secret: expected whpk_ and 32 bytes") as caught:
        verify([SECRET, key], headers(V1), BODY, now=AT)
    assert len(key) < 10 or key not in str(caught.value)


def test_without_a_secret_the_receivers_own_program_is_told() -> None:
    with pytest.raises(InvalidInput, match="secret: there is none"):
        verify([], headers(V1), BODY, now=AT)


def test_a_tolerance_needs_a_unit() -> None:
    """300 would be milliseconds, and every request too old."""
    with pytest.raises(InvalidInput, match=r"tolerance: .* has no unit"):
        verify(SECRET, headers(V1), BODY, now=AT, tolerance="300")


def test_dots_cannot_move_from_a_body_into_an_id() -> None:
    """The bytes that were signed are the same ones: an old request would pass for a new one with another id."""
    body = f"{AT + 900}.[1]".encode()
    moved = {"webhook-id": f"msg_0001.{AT}", "webhook-timestamp": str(AT + 900)}
    with pytest.raises(InvalidSignature):
        verify(SECRET, headers(sign([SECRET], "msg_0001", AT, body)) | moved, b"[1]", now=AT + 900)


def test_hmac_needs_no_other_package_and_a_public_key_says_which() -> None:
    program = f"""
import sys
sys.modules.update(aiohttp=None, cryptography=None, apsw=None)
from anew.webhooks import verify
print(verify({SECRET!r}, {headers(V1)!r}, {BODY!r}, now={AT}).data)
try:
    verify({PUBLIC!r}, {headers(V1A)!r}, {BODY!r}, now={AT})
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    hmac, ed25519 = done.stdout.splitlines()
    assert (hmac, done.stderr) == ("{'id': 42}", "")
    assert ed25519.startswith("NotSupported cryptography is not installed")
    assert ed25519.endswith("pip install 'anew[webhooks]'")


@pytest.mark.parametrize(
    "wrap", [StarletteHeaders, WerkzeugHeaders, CIMultiDict, lambda given: EnvironHeaders(environ(given))]
)
def test_headers_are_taken_as_frameworks_give_them(wrap: Any) -> None:
    assert verify(SECRET, wrap(headers(V1)), BODY, now=AT).data == {"id": 42}


def environ(given: dict[str, str]) -> dict[str, str]:
    """As Flask has them."""
    return {"HTTP_" + name.upper().replace("-", "_"): value for name, value in given.items()}


def test_notifications_37_during_a_rotation_both_keys_sign_the_current_one_first() -> None:
    ring = new_ring("hmac", SECRET, seeded)
    turned = rotated(ring, None, 60_000, 1_000, lambda number: b"n" * number)
    current = turned.current
    assert signing(turned, 1_000) == [current, SECRET]
    header = sign(signing(turned, 1_000), "msg_1", AT, BODY)
    assert header.startswith(sign([current], "msg_1", AT, BODY))
    assert all(is_signed(header, [secret], "msg_1", str(AT), BODY) for secret in (current, SECRET))
    assert signing(turned, 61_000) == [current]


def test_at_most_ten_keys_sign_at_one_time() -> None:
    ring = KeyRing((Key(SECRET),))
    for number in range(9):
        ring = rotated(ring, None, 60_000, number, lambda length, n=number: bytes([n]) * length)  # type: ignore[misc]
    assert len(ring.keys) == 10
    with pytest.raises(Conflict, match="at most 10 keys"):
        rotated(ring, None, 60_000, 10, seeded)
    assert len(rotated(ring, None, 60_000, 70_000, seeded).keys) == 2


def test_notifications_38_what_is_shown_of_keys_is_no_secret(tmp_path: Any) -> None:
    ring = new_ring("ed25519", None, seeded)
    box = Box(lambda: bytes(32))
    sealed = box.seal(json.dumps(ring.current).encode(), 7)
    for text in (repr(ring), repr(ring.keys[0]), repr(box), str(ring), sealed.decode("latin-1")):
        assert ring.current.removeprefix("whsk_")[:20] not in text


def test_what_is_sealed_opens_for_its_owner_alone() -> None:
    box = Box(lambda: bytes(32))
    sealed = box.seal(b"secret", 7)
    assert box.open(sealed, 7) == b"secret"
    assert box.seal(b"secret", 7) != sealed
    for other, owner, text in ((box, 8, sealed), (Box(lambda: b"x" * 32), 7, sealed), (box, 7, sealed[:-1])):
        with pytest.raises(InvalidConfig, match=r"webhooks\.key"):
            other.open(text, owner)


def test_the_first_process_makes_the_secret_and_all_others_read_it(tmp_path: Any) -> None:
    path = tmp_path / "webhooks.key"
    first = load_or_make_secret(path)
    assert load_or_make_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["webhooks.key"]
    path.write_bytes(b"short")
    with pytest.raises(InvalidConfig, match="damaged"):
        load_or_make_secret(path)
