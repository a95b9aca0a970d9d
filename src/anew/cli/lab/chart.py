"""``anew lab chart``: pictures of retry policies, in the terminal or as a file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from anew.cli.lab.picture_file import picture_options, write_picture
from anew.cli.output import coloured, show_json
from anew.cli.values import named_policies
from anew.errors import InvalidInput
from anew.lab.charts.axes import log_of
from anew.lab.charts.classics import herd, zaqar
from anew.lab.charts.data import JOBS, KINDS, compose
from anew.lab.charts.link import beyond_page, link
from anew.lab.simulation.scenario import Scenario
from anew.units import parse_duration_with_unit

if TYPE_CHECKING:
    from anew.lab.charts.pictures import Picture
    from anew.lab.charts.text import Style

_TAKES: Final = {
    "band": ("retries",),
    "dots": ("retries", "jobs", "seed", "outage"),
    "heat": ("retries", "jobs", "seed", "outage"),
    "histogram": ("retry", "jobs", "seed"),
    "load": ("retries", "jobs", "seed", "outage", "over", "from", "to"),
}
"""What each kind of picture takes."""

_CLASSICS: Final = {"zaqar": (zaqar, ()), "herd": (herd, ("retries", "jobs", "seed"))}
"""Pictures that have names, and what each takes."""

_PAGE: Final = {"band": "curve", "dots": "herd", "heat": "herd", "histogram": "waits", "load": "load"}
"""What the lab's page calls each kind."""

_BRAILLE: Final = "⠿│┤└─┬┊░▒▓█▄→…×"


@click.command("chart")
@click.argument("specs", metavar="POLICY...", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(KINDS), help="What is drawn. [band]")
@click.option("--retries", type=int, metavar="N", help="Retries to show. [all; 25 where there is no end]")
@click.option("--retry", type=int, metavar="K", help="The retry of a histogram. [1]")
@click.option(
    "--jobs",
    type=int,
    metavar="N",
    help="Jobs that fail together. [100; heat and load 1000; histogram 10000]",
)
@click.option("--seed", type=int, metavar="N", help="For the jitter's draws. [1]")
@click.option("--over", metavar="TIME", help="For load: first failures spread over this. [0]")
@click.option(
    "--outage", metavar="TIME", help="For dots, heat, load: calls fail until then. [they always fail]"
)
@click.option("--from", "from", metavar="TIME", help="For load: begin to look here. [0]")
@click.option("--to", metavar="TIME", help="For load: look no farther. [the last call]")
@click.option("--log/--linear", "log", default=None, help="The axis of durations. [whatever shows more]")
@picture_options
@click.option(
    "--width", type=click.IntRange(30, 1_000), metavar="N", help="Characters across. [the terminal's]"
)
@click.option("--json", "as_json", is_flag=True, help="Give the data in JSON.")
def chart(
    specs: tuple[str, ...],
    kind: str | None,
    log: bool | None,
    out: Path | None,
    dark: bool | None,
    width: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Draw retry policies, in the terminal or as a file.

    POLICY is JSON, the name of a preset (anew policy list), @FILE, @FILE:NAME, or - for stdin; up to six share a
    picture. Kinds: band (each retry's wait, earliest to latest), dots (a row for each job, a dot for each retry), heat
    (a row for each retry of any number of jobs), histogram (one retry's waits), load (calls that reach what is called).

    Two pictures have a name: zaqar, the four functions between two waits; herd, the dots of constant, exponential,
    Sidekiq and buckets, each with even beside it.

    \b
    Examples:
      anew lab chart even zizq --retries 12
      anew lab chart faktory --kind dots --out dots.svg
      anew lab chart even --kind heat --jobs 100000
      anew lab chart sidekiq even --kind load --outage 2h
      anew lab chart sidekiq even --kind load --outage 2h --from 2h --to 2h10m
      anew lab chart buckets --kind histogram --retry 3 --json
      anew lab chart '{"preset": "zizq", "exponent": 3}'
      anew lab chart zaqar
      anew lab chart herd --out herd.png --dark
    """
    options = {name: value for name, value in given.items() if value is not None}
    if width is not None and (out or as_json):
        raise _of_no_use("width", width, "a file and JSON have no use for it")
    if kind is None and len(specs) == 1 and specs[0] in _CLASSICS:
        make, taken = _CLASSICS[specs[0]]
        _check_options(options, taken, f"the picture {specs[0]}")
        picture, refusal = make(**options), ""
        if log is not None:
            picture = msgspec.structs.replace(picture, log=log)
    else:
        picture, refusal = _composed(specs, kind or "band", options, log)
    if out:
        write_picture(picture, out, dark=dark)
    if as_json:
        show_json(picture)
    elif not out:
        from anew.lab.charts.terminal import draw

        click.echo(draw(picture, style_of(sys.stdout, width=width, dark=dark)))
    if not as_json:
        _show_link(picture.link, refusal)


def _show_link(link: str, refusal: str) -> None:
    if link:
        from anew.cli.lab.page import PORT

        click.echo(f"\nOn the lab's page (start it with: anew lab): http://127.0.0.1:{PORT}{link}")
    elif refusal:
        click.echo(f"\nThe lab's page cannot show this: {refusal}.")


def _composed(
    specs: tuple[str, ...], kind: str, options: dict[str, Any], log: bool | None
) -> tuple[Picture, str]:
    """Make the picture of any policies, with its link; where there is none, say why."""
    _check_options(options, _TAKES[kind], f"--kind {kind}")
    if log is not None and kind == "histogram":
        raise _of_no_use("log" if log else "linear", log, "the waits of a histogram stand in equal bins")
    forms, policies = named_policies(specs)
    durations = {name: value for name, value in options.items() if isinstance(value, str)}
    plain = {name: value for name, value in options.items() if name not in durations}
    plain |= {f"{name}_ms": parse_duration_with_unit(text, f"--{name}") for name, text in durations.items()}
    met: dict[str, Any] = {"jobs": JOBS.get(kind, 1), "success": 1.0 if "outage" in options else 0.0}
    met |= {name: plain.pop(name) for name in ("jobs", "seed", "outage_ms", "over_ms") if name in plain}
    picture = compose(kind, policies, Scenario.from_json(met), log=log, **plain)
    # The page counts in powers unless told; where a load is better read otherwise, it shall not.
    linear = log is False or (kind == "load" and not log_of(picture))
    more = {name: options.get(name) for name in ("jobs", "seed", "over", "outage")} | {
        # Where nothing is said the page shows another one.
        "retry": options.get("retry", 1) if kind == "histogram" else None,
        # The page can look at a beginning only.
        "until": options.get("to"),
        "success": 1 if "outage" in options else None,
        "scale": "linear" if linear else None,
    }
    refusal = beyond_page(forms, **more)
    if kind != "load" and "outage" in options:
        refusal = "its herds fail at every retry"
    found = "" if refusal else link(forms, chart=_PAGE[kind], **more)
    return msgspec.structs.replace(picture, link=found), refusal


def _of_no_use(name: str, value: Any, why: str) -> InvalidInput:
    return InvalidInput(f"--{name}: {why}; expected the command without it", field=f"--{name}", value=value)


def _check_options(options: dict[str, Any], taken: tuple[str, ...], what: str) -> None:
    for name, value in options.items():
        if name not in taken:
            # The value may well be valid, so the message leaves it alone.
            takes = ", ".join(f"--{other}" for other in taken) or "none"
            goes = [f"--kind {kind}" for kind, names in _TAKES.items() if name in names]
            message = (
                f"--{name}: {what} has no use for it; {what} takes: {takes}; expected --{name} with "
                f"{', '.join(goes)}"
            )
            raise InvalidInput(message, field=f"--{name}", value=value)


def style_of(stream: Any, *, width: int | None = None, dark: bool | None = None) -> Style:
    """Tell what a stream can show.

    Args:
        stream: Where the picture goes.
        width: Characters across; None: the terminal's, 80 where there is none.
        dark: Its ground; None: as the terminal says (``COLORFGBG``), dark where it says nothing.
    """
    from anew.lab.charts.text import Style

    columns = shutil.get_terminal_size((80, 24)).columns if width is None else width
    if dark is None:
        # "15;0" is white on black; 7 and 15 as the second number are light grounds.
        dark = os.environ.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")
    full = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
    colours: Literal["none", "256", "true"] = "none" if not coloured(stream) else "true" if full else "256"
    try:
        _BRAILLE.encode(getattr(stream, "encoding", None) or "ascii")
        braille = True
    except (UnicodeEncodeError, LookupError):
        braille = False
    return Style(columns=columns, colours=colours, braille=braille, dark=dark)
