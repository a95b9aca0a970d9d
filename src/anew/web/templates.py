"""The templates of a folder of pages: whatever is put into one is escaped, and what is missing is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anew import __version__
from anew.web.assets import assets

if TYPE_CHECKING:
    from jinja2 import Environment


def templates_of(package: str) -> Environment:
    """Give the templates in a package's folder ``templates``; they know the version and the addresses of files."""
    from jinja2 import (  # where nobody opens a page, nobody pays for this
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"asset": assets().url, "version": __version__}
    return made
