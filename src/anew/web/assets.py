"""The files that pages load: our own and the vendored ones, read once from the package.

They live under one address that holds the hash of all of them (so that modules find each other by relative
paths), and may therefore be kept for ever: another version has another address.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from anew.errors import NotFound
from anew.http.formats import Format
from anew.http.router import Router
from anew.net.seam import Request
from anew.web.headers import FILE

PREFIX: Final = "/static"

TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
"""What is served, by the end of its name; other files of the package are not."""


class Asset(NamedTuple):
    """One file as it is served."""

    body: bytes
    content_type: bytes


class Assets:
    """All files that pages load.

    Attributes:
        version: Hash of all of them; part of their address.
        by_name: Each of them.
    """

    def __init__(self) -> None:
        self.by_name = _read()
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


@lru_cache(maxsize=1)
def assets() -> Assets:
    """Give the files; they are read once in a process."""
    return Assets()


def add_routes(router: Router) -> None:
    """Serve the files, whatever `Accept` says."""
    found = assets()

    def file(request: Request, form: Format, params: tuple[str, ...]) -> None:
        asset = found.find(*params)
        if asset is None:
            raise NotFound("not found")
        request.reply(200, asset.body, asset.content_type, FILE)

    router.add("GET", PREFIX + "/{version}/{name}", file, streams=True)


def _read() -> dict[str, Asset]:
    package = files("anew.web")
    folders = [package / "static", *(folder for folder in (package / "vendor").iterdir() if folder.is_dir())]
    there = {item.name: item for folder in folders for item in folder.iterdir()}
    return {
        name: Asset(there[name].read_bytes(), TYPES[ending])
        for name in sorted(there)
        if (ending := name.rpartition(".")[2]) in TYPES
    }
