"""The keys of a subscription: which sign now, how they are exchanged, and how they are kept encrypted."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from anew.errors import Conflict, InvalidConfig, NotSupported
from anew.topics.signing import SigningKind, check_secret, new_secret

MOST_KEYS: Final = 10
MOST_OVERLAP_MS: Final = 7 * 86_400_000
_VERSION: Final = b"\x01"
_NONCE: Final = 12


class Key(Struct, frozen=True):
    """One key.

    Attributes:
        secret: Its text.
        until: It signs no longer than this, epoch ms; None: it is the current one.
    """

    secret: str
    until: int | None = None

    def __repr__(self) -> str:
        return f"Key(until={self.until})"


class KeyRing(Struct, frozen=True):
    """The keys of one subscription, the current one first."""

    keys: tuple[Key, ...]

    def __repr__(self) -> str:
        return f"KeyRing({len(self.keys)} keys)"

    @property
    def current(self) -> str:
        """The current secret."""
        return self.keys[0].secret


def new_ring(kind: SigningKind, secret: str | None, chance: Callable[[int], bytes]) -> KeyRing:
    """Make the keys of a new subscription.

    Args:
        kind: What it is signed with, where no secret is given.
        secret: Its owner's own, checked here.
        chance: Gives random bytes.
    """
    if secret is not None:
        check_secret(secret)
    return KeyRing((Key(new_secret(kind, chance) if secret is None else secret),))


def rotated(
    ring: KeyRing, secret: str | None, overlap_ms: int, now: int, chance: Callable[[int], bytes]
) -> KeyRing:
    """Give a ring with a new current key; the others sign beside it for a while.

    Raises:
        Conflict: There are so many keys already that sign.
    """
    kind: SigningKind = check_secret(ring.current) if secret is None else check_secret(secret)
    current = Key(new_secret(kind, chance) if secret is None else secret)
    old = [replace(key, until=now + overlap_ms if key.until is None else key.until) for key in ring.keys]
    old = [key for key in old if key.until is not None and key.until > now]
    if len(old) >= MOST_KEYS:
        raise Conflict(f"at most {MOST_KEYS} keys sign at one time; wait until one of them ends")
    return KeyRing((current, *old))


def signing(ring: KeyRing, now: int) -> list[str]:
    """Give the secrets that sign now, the current one first."""
    return [key.secret for key in ring.keys if key.until is None or key.until > now]


class Box:
    """Encrypts what is stored, by AES-GCM.

    Args:
        load: Gives the secret, 32 bytes, when it is needed first: a store without subscriptions has none.
    """

    def __init__(self, load: Callable[[], bytes]) -> None:
        self._load = load

    def __repr__(self) -> str:
        return "Box()"

    @cached_property
    def _secret(self) -> bytes:
        return self._load()

    def seal(self, plain: bytes, owner: int) -> bytes:
        """Encrypt something that belongs to a subscription.

        Raises:
            NotSupported: The package that encrypts is not installed.
        """
        if find_spec("cryptography") is None:
            raise NotSupported("subscriptions need the extra webhooks: pip install 'anew[webhooks]'")
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE)
        return _VERSION + nonce + AESGCM(self._secret).encrypt(nonce, plain, b"%d" % owner)

    def open(self, sealed: bytes, owner: int) -> bytes:
        """Decrypt it.

        Raises:
            InvalidConfig: It was encrypted with another secret, for another subscription, or by a newer Anew; or it is damaged.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        version, nonce, text = sealed[:1], sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        if version != _VERSION:
            raise InvalidConfig(
                f"the keys of a subscription are in a form that this version of Anew does not know: {version!r}"
            )
        try:
            return bytes(AESGCM(self._secret).decrypt(nonce, text, b"%d" % owner))
        except (InvalidTag, ValueError) as error:
            raise InvalidConfig(
                "the keys of subscriptions were encrypted with another secret; bring back the file "
                "webhooks.key that belongs to this store"
            ) from error


@lru_cache(maxsize=16_384)
def opened(box: Box, sealed: bytes, owner: int) -> KeyRing:
    """Read the keys of a subscription; see `Box.open`."""
    return msgspec.json.decode(box.open(sealed, owner), type=KeyRing)


def load_or_make_secret(path: Path) -> bytes:
    """Read the secret of a store's keys; the first process makes it, readable by its user alone.

    Raises:
        InvalidConfig: The file cannot be read or made, or is no such secret.
    """
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be used: {error.strerror}") from error
    if len(secret) != 32:
        raise InvalidConfig(f"{path} is damaged: expected 32 bytes, it has {len(secret)}; restore it")
    return secret


def _make_secret(path: Path) -> None:
    """Write a secret whole and synced, and only then give it its name; the first of several counts."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # there is none yet where the store is no file
    # A name of chance: processes in two containers may have the same id, and threads of one process have.
    descriptor, made = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # readable by its user alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was first, and its secret counts
            os.link(made, path)
    finally:
        os.unlink(made)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Keep the name through a loss of power: without its secret, nothing that is encrypted can be read."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
