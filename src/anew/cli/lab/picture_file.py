"""Pictures that go to a file: of which kind, whether that can be done, and the writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from anew.errors import InvalidInput, NotSupported
from anew.units import refused, shown

if TYPE_CHECKING:
    from anew.lab.charts.pictures import Picture

_FIELD: Final = "--out"


def picture_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--out`` and ``--dark``; a file that cannot be written is refused before the work."""
    dark = click.option(
        "--dark/--light", "dark", default=None, help="The ground. [files: light; else the terminal's]"
    )
    out = click.option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=_checked,
        metavar="FILE",
        help="Write .svg or .png.",
    )
    return out(dark(function))


def _checked(ctx: click.Context, param: click.Parameter, out: Path | None) -> Path | None:
    """Refuse a file's name with another ending, a place where no file can be, and all of them without matplotlib."""
    if out is None:
        return None
    if out.suffix.lower() not in (".svg", ".png"):
        raise refused(_FIELD, str(out), "a name that ends in .svg or .png")
    from anew.cli.files import require_writable  # only where a file is written
    from anew.lab.charts.figures import has_matplotlib

    if not has_matplotlib():
        raise NotSupported(f"{_FIELD} needs matplotlib, which is not installed: pip install 'anew[lab]'")
    require_writable(out, _FIELD)
    return out


def write_picture(picture: Picture, out: Path, *, dark: bool | None) -> None:
    """Draw a picture into a file.

    Raises:
        InvalidInput: The file cannot be written.
    """
    from anew.cli.files import write_whole
    from anew.lab.charts.figures import figure

    content = figure(picture, "png" if out.suffix.lower() == ".png" else "svg", dark=bool(dark))
    try:
        write_whole(out, content)
    except OSError as error:
        reason = f"{shown(str(out))} cannot be written ({error.strerror})"
        message = f"{_FIELD}: {reason}; expected a place for a file"
        raise InvalidInput(message, field=_FIELD, value=str(out)) from error
    click.echo(f"wrote {out} ({len(content):,} bytes)", err=True)
