"""The files that pages load: our own and the vendored ones, read once from the package.

They live under one address that holds the hash of all of them (so that modules find each other by relative
paths), and may therefore be kept for ever: another version has another address.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import msgspec

PREFIX: Final = "/lab/static"

TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
"""What is served, by the end of its name; other files of the package are not."""


class VendoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file as it was published.

    Attributes:
        path: Below `vendor/`.
        sha256: Of its bytes, in hex.
    """

    path: str
    sha256: str


class Vendored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One library of others that is shipped with the package.

    Attributes:
        name: Of its npm package.
        version: As published.
        licence: SPDX identifier; the text lies beside the files.
        files: Each of them.
    """

    name: str
    version: str
    licence: str
    files: tuple[VendoredFile, ...]


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served.

    Attributes:
        body: Its bytes.
        content_type: Media type.
        etag: Quoted hash.
    """

    body: bytes
    content_type: bytes
    etag: bytes


class Assets:
    """All files that pages load.

    Attributes:
        version: Hash of all of them; part of their address.
        by_name: Each of them.
    """

    def __init__(self) -> None:
        self.by_name = dict(sorted(_read().items()))
        whole = hashlib.sha256()
        for name, asset in self.by_name.items():
            whole.update(name.encode() + b"\0" + asset.body)
        self.version = whole.hexdigest()[:16]

    def find(self, version: str, name: str) -> Asset | None:
        """Find a file of this version; None if there is none, or it is of another version."""
        return self.by_name.get(name) if version == self.version else None

    def url(self, name: str) -> str:
        """Give a file's address.

        Raises:
            KeyError: There is no such file.
        """
        self.by_name[name]
        return f"{PREFIX}/{self.version}/{name}"


def manifest() -> tuple[Vendored, ...]:
    """Give what is vendored, as the manifest says."""
    text = (_package() / "vendor" / "manifest.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Vendored, ...])


def vendored_bytes(path: str) -> bytes:
    """Give a vendored file's bytes."""
    return bytes((_package() / "vendor" / path).read_bytes())


def _read() -> dict[str, Asset]:
    own = {item.name: item.read_bytes() for item in (_package() / "static").iterdir() if item.is_file()}
    others = {
        file.path.rpartition("/")[2]: vendored_bytes(file.path) for lib in manifest() for file in lib.files
    }
    return {name: _asset(name, body) for name, body in (own | others).items() if _type(name) is not None}


def _asset(name: str, body: bytes) -> Asset:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
    return Asset(body, TYPES[name.rpartition(".")[2]], etag)


def _type(name: str) -> bytes | None:
    return TYPES.get(name.rpartition(".")[2])


def _package() -> Any:
    return files("anew.web")
