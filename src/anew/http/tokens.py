"""Who holds the token that a request brings, where there is a file of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anew.config.token_file import Token, digest_of, read_tokens
from anew.http.roles import Roles

MOST_REMEMBERED: Final = 1_000
"""Headers whose token is known without a digest."""


class Tokens:
    """The tokens of one server.

    A token is looked up by its digest. A look-up takes longer or shorter by how the digests in the table lie, not by how much of a
    token was guessed right: whoever changes one character of a guess gets another digest altogether.
    Headers that were let in are looked up by Python's hash of all their bytes, and compared only where that is the same.

    Args:
        file: The file of tokens.
        admin: The token that may do everything beside them; None if there is none.

    Raises:
        InvalidConfig: The file cannot be used.
    """

    def __init__(self, file: Path, admin: str | None = None) -> None:
        self._file = file
        self._own = (
            [] if admin is None else [Token(digest_of(admin.encode()), frozenset({"admin"}), "--token")]
        )
        self._by_digest: dict[bytes, Token] = {}
        self._by_header: dict[bytes, Token] = {}  # of headers that were let in, and no others
        self.reload()

    def __len__(self) -> int:
        return len(self._by_digest)

    def reload(self) -> None:
        """Read the file again.

        Raises:
            InvalidConfig: It cannot be used; then everything stays as it was.
        """
        self._by_digest = {token.digest: token for token in [*read_tokens(self._file), *self._own]}
        self._by_header.clear()

    def roles(self) -> frozenset[str]:
        """Give the roles that some token has."""
        return frozenset[str]().union(*(token.roles for token in self._by_digest.values()))

    def find(self, secret: bytes) -> Token | None:
        """Find a token."""
        return self._by_digest.get(digest_of(secret))

    def allow(self, authorization: bytes, roles: Roles) -> bool:
        """Say whether a header brings a token with one of these roles."""
        token = self.bearer(authorization)
        return token is not None and not token.roles.isdisjoint(roles)

    def bearer(self, authorization: bytes) -> Token | None:
        """Find the token of an ``Authorization`` header; None unless it brings one as a bearer."""
        found = self._by_header.get(authorization)
        if found is None and authorization.startswith(b"Bearer "):
            found = self.find(authorization[len(b"Bearer ") :])
            if found is not None and len(self._by_header) < MOST_REMEMBERED:
                self._by_header[authorization] = found
        return found
