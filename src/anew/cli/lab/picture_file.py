"""Pictures that go to a file: of which kind, whether that can be done, and the writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from anew.cli.files import require_writable, write_whole
from anew.errors import InvalidInput, NotSupported
from anew.units import refused, shown

if TYPE_CHECKING:
    from anew.lab.charts.pictures import Picture

_FIELD = "--out"


def picture_format(out: Path | None) -> Literal["svg", "png"] | None:
    """Tell which kind of file a picture goes to; None if it goes to none. What cannot be done is known before the work.

    Raises:
        InvalidInput: Its name has another ending, or there is no place for it.
        NotSupported: matplotlib is missing.
    """
    if out is None:
        return None
    form: Literal["svg", "png"]
    match out.suffix.lower():
        case ".svg":
            form = "svg"
        case ".png":
            form = "png"
        case _:
            raise refused(_FIELD, str(out), "a name that ends in .svg or .png")
    from anew.lab.charts.figures import has_matplotlib

    if not has_matplotlib():
        raise NotSupported(f"{_FIELD} needs matplotlib, which is not installed: pip install 'anew[lab]'")
    require_writable(out, _FIELD)
    return form


def write_picture(picture: Picture, out: Path, form: Literal["svg", "png"], *, dark: bool) -> None:
    """Draw a picture into a file.

    Raises:
        InvalidInput: The file cannot be written.
    """
    from anew.lab.charts.figures import figure

    content = figure(picture, form, dark=dark)
    try:
        write_whole(out, content)
    except OSError as error:
        message = (
            f"{_FIELD}: {shown(str(out))} cannot be written ({error.strerror}); expected a place for a file"
        )
        raise InvalidInput(message, field=_FIELD, value=str(out)) from error
    click.echo(f"wrote {out} ({len(content):,} bytes)", err=True)
