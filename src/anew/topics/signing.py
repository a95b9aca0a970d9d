"""Signatures of Standard Webhooks: HMAC-SHA256 (``v1``) and ed25519 (``v1a``).

Source: the Standard Webhooks specification. What is signed is ``id.timestamp.body``; a header may carry several signatures, so
that keys can be exchanged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Final, Literal

from anew.errors import InvalidInput

SigningKind = Literal["hmac", "ed25519"]

SECRET: Final = "whsec_"  # noqa: S105 - how one begins
PRIVATE: Final = "whsk_"
PUBLIC: Final = "whpk_"
LEAST_BYTES: Final = 24
MOST_BYTES: Final = 64


def new_secret(kind: SigningKind, chance: Callable[[int], bytes]) -> str:
    """Make a secret: 32 bytes for HMAC, or an ed25519 key pair (seed and public key).

    Args:
        kind: For which signature.
        chance: Gives random bytes.
    """
    seed = chance(32)
    if kind == "hmac":
        return SECRET + _encoded(seed)
    return PRIVATE + _encoded(seed + _public_bytes(seed))


def check_secret(secret: str, field: str = "/secret") -> SigningKind:
    """Give what a secret is for.

    Raises:
        InvalidInput: It is none; the error does not repeat it.
    """
    kind: SigningKind = "ed25519" if secret.startswith(PRIVATE) else "hmac"
    try:
        raw = _raw(secret)
    except ValueError:
        raw = b""
    if kind == "ed25519" and (len(raw) != 64 or _public_bytes(raw[:32]) != raw[32:]):
        raise InvalidInput(
            f"{field}: expected {PRIVATE} and 64 bytes in base64: a seed and its public key", field=field
        )
    if kind == "hmac" and (not secret.startswith(SECRET) or not LEAST_BYTES <= len(raw) <= MOST_BYTES):
        raise InvalidInput(
            f"{field}: expected {SECRET} and {LEAST_BYTES} to {MOST_BYTES} bytes in base64", field=field
        )
    return kind


def check_key(key: str, field: str) -> None:
    """Check what a receiver verifies with: a secret, or a public key.

    Raises:
        InvalidInput: It is neither; the error does not repeat it.
    """
    if not key.startswith(PUBLIC):
        check_secret(key, field)
        return
    try:
        size = len(_raw(key))
    except ValueError:
        size = 0
    if size != 32:
        raise InvalidInput(f"{field}: expected {PUBLIC} and 32 bytes in base64", field=field)


def public_key(secret: str) -> str | None:
    """Give what a receiver verifies with, where that is not the secret itself: ``whpk_…``."""
    return PUBLIC + _encoded(_raw(secret)[32:]) if secret.startswith(PRIVATE) else None


def sign(secrets: Iterable[str], message_id: str, timestamp_s: int, body: bytes) -> str:
    """Give the header ``webhook-signature``: a signature for each secret, in their order.

    Args:
        secrets: Checked ones.
        message_id: Without a dot.
        timestamp_s: Of this attempt, seconds since the epoch.
        body: The exact bytes.
    """
    content = b"%b.%d." % (message_id.encode(), timestamp_s) + body
    return " ".join(_signature(secret, content) for secret in secrets)


def is_signed(header: str, secrets: Iterable[str], message_id: str, timestamp: str, body: bytes) -> bool:
    """Report whether a header has a signature by one of some secrets, or public keys (``whpk_…``).

    Compares in constant time. What is signed is taken as it came, so a timestamp stays a text here. An id or a timestamp with
    a dot has no signature: dots could move from the body of a signed message into them, and the bytes would be the same.
    """
    if "." in message_id or "." in timestamp:
        return False
    # Servers give bytes of a header that are no text as lone surrogates; these are kept apart, and never raise.
    content = f"{message_id}.{timestamp}.".encode(errors="surrogatepass") + body
    given = [one.partition(",") for one in header.split(" ")[:20]]
    found = False
    for secret in secrets:
        if secret.startswith((PUBLIC, PRIVATE)):
            key = _raw(secret)[-32:]
            found |= any(_is_signed_by(key, text, content) for kind, _, text in given if kind == "v1a")
        else:
            wanted = _signature(secret, content).encode()
            found |= any(
                hmac.compare_digest("".join(one).encode(errors="surrogatepass"), wanted) for one in given
            )
    return found


def _signature(secret: str, content: bytes) -> str:
    raw = _raw(secret)
    if secret.startswith(PRIVATE):
        return f"v1a,{_encoded(_private(raw[:32]).sign(content))}"
    return f"v1,{_encoded(hmac.digest(raw, content, hashlib.sha256))}"


def _is_signed_by(key: bytes, text: str, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(base64.b64decode(text, validate=True), content)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _private(seed: bytes):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed)


def _public_bytes(seed: bytes) -> bytes:
    return bytes(_private(seed).public_key().public_bytes_raw())


def _raw(secret: str) -> bytes:
    """Give the bytes of a secret; raises ValueError where they are no base64."""
    return base64.b64decode(secret.partition("_")[2], validate=True)


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
