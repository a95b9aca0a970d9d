"""A picture as a file: SVG or PNG, drawn by matplotlib, light or dark, byte for byte the same each time."""

from __future__ import annotations

import io
import re
from importlib.util import find_spec
from typing import Any, Final, Literal

from anew.errors import NotSupported
from anew.lab.chance import has_numpy
from anew.lab.charts.pictures import Picture

_DOTS_PER_INCH: Final = 150

_PATH: Final = re.compile(rb' d="[^"]*"')
_FINE: Final = re.compile(rb"(\.\d\d)\d+")
"""A path's places beyond a hundredth of a point, which nobody sees: they are half of the file of a herd."""
_DOT: Final = re.compile(rb"M (\S+ \S+) \nL \1 \n")
"""A dot, as matplotlib writes it: a line to where it begins. With ``h0`` it has half the letters."""


def has_matplotlib() -> bool:
    """Tell whether figures can be drawn here: matplotlib draws them, and itself needs NumPy."""
    return has_numpy() and find_spec("matplotlib") is not None


def figure(picture: Picture, form: Literal["svg", "png"], *, dark: bool = False) -> bytes:
    """Draw a picture for a file.

    Returns:
        The file's bytes; the same picture gives the same bytes with the same release of matplotlib.

    Raises:
        NotSupported: matplotlib is missing; says how to get it.
    """
    if not has_matplotlib():
        raise NotSupported("matplotlib is not installed, which draws the figures: pip install 'anew[lab]'")
    import matplotlib

    from anew.lab.charts.plots import DARK, LIGHT, settings, sheet_of

    theme = DARK if dark else LIGHT
    # Nothing that changes by itself: neither a date nor the release's number.
    told = {"Creator": "anew lab", "Date": None} if form == "svg" else {"Software": None}
    metadata: dict[str, Any] = {"Title": picture.title, **told}
    into = io.BytesIO()
    with matplotlib.rc_context(settings(theme)):
        sheet_of(picture, theme).savefig(into, format=form, dpi=_DOTS_PER_INCH, metadata=metadata)
    content = into.getvalue()
    if form == "png":
        return content
    return _PATH.sub(lambda path: _DOT.sub(rb"M\1h0", _FINE.sub(rb"\1", path[0])), content)
