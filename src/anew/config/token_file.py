"""The file of tokens: a line has the SHA-256 of a token, its roles, and a name. Who has read the file has no token."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from anew.errors import InvalidConfig
from anew.units import reason_of, shown

ROLES: Final = ("admin", "read", "producer", "worker")
"""What a token may be for; see `anew.http.roles`."""

MOST_BYTES: Final = 1 << 20
"""Of the file: some ten thousand tokens."""

_FLAG: Final = "--tokens-file"
_TOKEN_BYTES: Final = (
    32  # 256 bits of chance: nobody finds a token by trying, so a plain SHA-256 of it may be stored
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_A_NAME: Final = "a name: 1 to 64 letters, digits, dots, underscores and hyphens"
_A_FILE: Final = "a file of tokens; `anew token new --file` makes one"
_A_LINE: Final = (
    "the SHA-256 of a token, its roles and a name, with blanks between them, as `anew token new` writes"
)


class Token(NamedTuple):
    """What is known of a token.

    Attributes:
        digest: Its SHA-256.
        roles: What it may be used for; one or more of `ROLES`.
        name: Whose it is, for people.
    """

    digest: bytes
    roles: frozenset[str]
    name: str


def new_token() -> str:
    """Give a token that nobody has had before.

    It begins with a word, so that no shell takes it for an option, no one for a digest, and a search for secrets finds it.
    """
    return f"anew_{secrets.token_urlsafe(_TOKEN_BYTES)}"


def digest_of(token: bytes) -> bytes:
    """Give what is stored of a token."""
    return hashlib.sha256(token).digest()


def line_of(token: str, roles: Collection[str], name: str) -> str:
    """Write the line of a token.

    Raises:
        InvalidConfig: The name does not fit.
    """
    if not _NAME.fullmatch(name):
        raise _refused("--name", name, _A_NAME)
    return f"{digest_of(token.encode()).hex()} {','.join(roles)} {name}"


def read_tokens(file: Path) -> list[Token]:
    """Read a file of tokens. Empty lines and those that begin with ``#`` are passed over.

    Raises:
        InvalidConfig: It cannot be read, others may use it, or a line does not fit; the message names file, line, value, and what
            was expected.
    """
    tokens: dict[bytes, Token] = {}
    for number, line in enumerate(_text_of(file).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f'{_FLAG}: "{file}" line {number}'
        token = _read_line(line, where)
        if token.digest in tokens:
            raise _refused(
                where, token.name, "a token that no line above has (two roles of one: worker,producer)"
            )
        tokens[token.digest] = token
    return [*tokens.values()]


def add_line(file: Path, line: str) -> None:
    """Write a line to the end of a file of tokens, which is made if it is missing.

    Raises:
        InvalidConfig: It cannot be written, or is no file of tokens that a server would read.
    """
    before = _text_of(file) if file.exists() else ""
    if before:
        read_tokens(file)
    text = line + "\n" if not before or before.endswith("\n") else f"\n{line}\n"
    if len(before) + len(text) > MOST_BYTES:
        raise _unusable(file, f"with one more line it has more than {MOST_BYTES} bytes", "fewer tokens")
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
    except OSError as error:
        raise _unusable(file, reason_of(error), "a file that can be written") from error


def _text_of(file: Path) -> str:
    """Read a file that nobody else may write: who can makes himself an administrator."""
    try:
        with open(file, "rb", opener=_open_at_once) as opened:
            mode = os.fstat(opened.fileno()).st_mode
            data = opened.read(MOST_BYTES + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise _unusable(file, reason_of(error), _A_FILE) from error
    if not stat.S_ISREG(mode):
        raise _unusable(file, "it is not a regular file", _A_FILE)
    if mode & 0o027:  # a group may read it, as it may read a private key: Kubernetes mounts secrets so
        raise _unusable(
            file, "others than its owner may write it, or all may read it", f"mode 0600: chmod 600 {file}"
        )
    if len(data) > MOST_BYTES:
        raise _unusable(file, f"it has more than {MOST_BYTES} bytes", "fewer tokens")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        where = f'{_FLAG}: "{file}" line {line}'
        raise _refused(where, f"byte 0x{data[error.start]:02x}", "ASCII") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for whoever writes a pipe: a server that runs reads the file in its event loop."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_line(line: str, where: str) -> Token:
    words = line.split()
    if len(words) != 3:
        raise InvalidConfig(f"{where}: it is not three words; expected {_A_LINE}", field="tokens-file")
    digest, roles, name = words
    if not _DIGEST.fullmatch(digest):
        # Not shown: what stands there by mistake is most likely the token itself.
        raise InvalidConfig(
            f"{where}: the first word ({len(digest)} characters) is not valid; expected the 64 hexadecimal digits, in lower case, "
            "of a token's SHA-256, as `anew token new` writes them",
            field="tokens-file",
        )
    for role in roles.split(","):
        if role not in ROLES:
            raise _refused(where, role, f"roles out of {', '.join(ROLES)}, with commas between them")
    if not _NAME.fullmatch(name):
        raise _refused(where, name, _A_NAME)
    return Token(bytes.fromhex(digest), frozenset(roles.split(",")), name)


def _refused(where: str, value: str, expected: str) -> InvalidConfig:
    return InvalidConfig(
        f"{where}: {shown(value)} is not valid; expected {expected}", field="tokens-file", value=value
    )


def _unusable(file: Path, why: str, expected: str) -> InvalidConfig:
    return InvalidConfig(
        f'{_FLAG}: "{file}" cannot be used ({why}); expected {expected}', field="tokens-file", value=str(file)
    )
