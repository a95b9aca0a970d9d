"""The libraries of others that the lab's page loads, as the manifest beside them names them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

VENDOR: Final = Path(__file__).resolve().parents[3] / "src/anew/web/vendor"


class VendoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file as it was published: its path below `VENDOR`, and the SHA-256 of its bytes in hex."""

    path: str
    sha256: str


class Vendored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One library: its npm package, its version, its licence (SPDX; the text lies beside the files), and its files."""

    name: str
    version: str
    licence: str
    files: tuple[VendoredFile, ...]


def manifest() -> tuple[Vendored, ...]:
    """Give what is vendored."""
    return msgspec.json.decode((VENDOR / "manifest.json").read_bytes(), type=tuple[Vendored, ...])
