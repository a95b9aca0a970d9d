"""``anew lab chart``: pictures of retry policies, in the terminal or as a file."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from anew.cli.files import write_whole
from anew.cli.output import coloured, show_json
from anew.cli.patience import patience_option
from anew.cli.values import given_policy, read_duration
from anew.errors import InvalidInput, NotSupported
from anew.units import shown

if TYPE_CHECKING:
    from anew.lab.charts.ink import Style
    from anew.lab.charts.pictures import Picture

_KINDS: Final = ("band", "dots", "heat", "histogram", "load")
_CLASSICS: Final = {
    "zizq": ("base", "exponent", "jitter", "retries"),
    "zaqar": ("low", "high", "retries"),
    "herd": ("jobs", "retries", "seed"),
}
"""What each classic picture takes."""

_TAKES: Final = {
    "band": ("retries",),
    "dots": ("retries", "jobs", "seed"),
    "heat": ("retries", "jobs", "seed", "by"),
    "histogram": ("retry", "jobs", "seed"),
    "load": ("retries", "jobs", "seed", "over", "outage"),
}
"""What each kind of picture takes."""

_PAGE: Final = {"band": "curve", "dots": "herd", "heat": "herd", "histogram": "waits", "load": "load"}
"""What the lab's page calls each kind."""

_BRAILLE: Final = "⠿│┤└─┬░▒▓█▄→…×"


@click.command("chart")
@click.argument("specs", metavar="POLICY...", nargs=-1, required=True)
@click.option("--kind", type=click.Choice(_KINDS), help="What is drawn. [band]")
@click.option("--retries", type=int, metavar="N", help="Retries to show. [all; 25 where there is no end]")
@click.option("--retry", type=int, metavar="K", help="The retry of a histogram. [1]")
@click.option(
    "--jobs",
    type=int,
    metavar="N",
    help="Jobs that fail together. [100; heat and load 1000; histogram 10000]",
)
@click.option("--seed", type=int, metavar="N", help="For the jitter's draws. [1]")
@click.option(
    "--by",
    type=click.Choice(["retry", "phase"]),
    help="For heat: rows are retries, or jobs by phase. [retry]",
)
@click.option("--over", metavar="TIME", help="For load: first failures spread over this. [0]")
@click.option("--outage", metavar="TIME", help="For load: calls fail until then. [they always fail]")
@click.option("--base", metavar="TIME", help="For zizq: the fixed part. [15s]")
@click.option("--exponent", type=float, metavar="E", help="For zizq: the power of k. [4]")
@click.option("--jitter", metavar="TIME", help="For zizq: what each retry adds to the jitter. [30s]")
@click.option("--low", metavar="TIME", help="For zaqar: the first wait. [5s]")
@click.option("--high", metavar="TIME", help="For zaqar: the last wait. [260s]")
@click.option("--log/--linear", "log", default=None, help="The axis of durations. [whatever shows more]")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write .svg or .png."
)
@click.option("--dark/--light", "dark", default=None, help="The ground. [files: light; else the terminal's]")
@click.option(
    "--width", type=click.IntRange(30, 1_000), metavar="N", help="Characters across. [the terminal's]"
)
@patience_option(large=True)
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
    (the same for any number of jobs), histogram (one retry's waits), load (calls that reach what is called).

    Three pictures have a name: zizq, Zizq's band for any base, exponent and jitter; zaqar, the four functions between
    two waits; herd, the dots of constant, exponential, Sidekiq and buckets, each with even beside it.

    \b
    Examples:
      anew lab chart even zizq --retries 12
      anew lab chart faktory --kind dots --out dots.svg
      anew lab chart even --kind heat --by phase
      anew lab chart sidekiq even --kind load --outage 2h
      anew lab chart buckets --kind histogram --retry 3 --json
      anew lab chart zizq --base 15s --exponent 4 --jitter 30s
      anew lab chart zaqar --low 5s --high 260s --retries 10
      anew lab chart herd --out herd.png --dark
    """
    options = {name: value for name, value in given.items() if value is not None}
    form = picture_format(out)
    picture = (
        _classic(specs[0], options) if kind is None and specs[0] in _CLASSICS and len(specs) == 1 else None
    )
    if picture is None:
        picture = _composed(specs, kind or "band", options, log)
    elif log is not None:
        import msgspec

        picture = msgspec.structs.replace(picture, log=log)
    if form and out:
        write_picture(picture, out, form, dark=bool(dark))
    if as_json:
        show_json(picture)
    elif not out:
        from anew.lab.charts.terminal import draw

        click.echo(draw(picture, style_of(sys.stdout, width=width, dark=dark)))
    if picture.link and not as_json:
        from anew.cli.lab.page import PORT

        click.echo(f"\nOn the lab's page (start it with: anew lab): http://127.0.0.1:{PORT}{picture.link}")


def picture_format(out: Path | None) -> Literal["svg", "png"] | None:
    """Tell which kind of file a picture goes to; None if it goes to none.

    Raises:
        InvalidInput: Its name has another ending.
    """
    if out is None:
        return None
    match out.suffix.lower():
        case ".svg":
            return "svg"
        case ".png":
            return "png"
    message = f"--out: {shown(str(out))} is not valid; expected a name that ends in .svg or .png"
    raise InvalidInput(message, field="--out", value=str(out))


def _classic(name: str, options: dict[str, Any]) -> Picture:
    from anew.lab.charts.classics import classic

    _check_options(options, _CLASSICS[name], f"the picture {name}")
    return classic(name, {key: _plain(key, value) for key, value in options.items()})


def _plain(name: str, value: Any) -> Any:
    return read_duration(value, f"--{name}") if isinstance(value, str) else value


def _composed(specs: tuple[str, ...], kind: str, options: dict[str, Any], log: bool | None) -> Picture:
    from anew.backoff import Policy
    from anew.lab.charts.compose import compose, labels, link
    from anew.lab.charts.pictures import Named

    _check_options(options, _TAKES[kind], f"--kind {kind}")
    names, forms = zip(*map(given_policy, specs), strict=True)
    named = zip(labels(forms, names), forms, strict=True)
    policies = [Named(label, Policy.from_json(form)) for label, form in named]
    plain = {name: value if name == "by" else _plain(name, value) for name, value in options.items()}
    if kind == "load":
        plain = {"retries": plain.pop("retries", None), "scenario": _scenario(plain)}
    import msgspec

    from anew.lab.charts.terminal import log_of

    picture = compose(kind, policies, log=log, **plain)
    seen = {name: options.get(name) for name in ("jobs", "seed", "retry", "over", "outage")}
    # The page counts in powers unless told; where a load is better read otherwise, it shall not.
    linear = log is False or (kind == "load" and not log_of(picture))
    more = seen | {"success": 1 if "outage" in options else None, "scale": "linear" if linear else None}
    return msgspec.structs.replace(picture, link=link(forms, chart=_PAGE[kind], **more))


def _scenario(plain: dict[str, Any]) -> Any:
    from anew.lab.simulation.scenario import Scenario

    return Scenario.from_json({"success": 1.0 if "outage" in plain else 0.0, **plain})


def _check_options(options: dict[str, Any], taken: tuple[str, ...], what: str) -> None:
    for name, value in options.items():
        if name not in taken:
            expected = ", ".join(f"--{other}" for other in taken)
            goes = [f"--kind {kind}" for kind, names in _TAKES.items() if name in names]
            goes += [f"the picture {classic}" for classic, names in _CLASSICS.items() if name in names]
            message = (
                f"--{name}: {shown(value)} is not valid; {what} takes: {expected}; expected --{name} with "
                f"{', '.join(goes)}"
            )
            raise InvalidInput(message, field=f"--{name}", value=value)


def write_picture(picture: Picture, out: Path, form: Literal["svg", "png"], *, dark: bool) -> None:
    """Draw a picture into a file.

    Raises:
        NotSupported: matplotlib is missing.
        InvalidInput: The file cannot be written.
    """
    from anew.lab.charts.figures import figure, has_matplotlib

    if not has_matplotlib():
        raise NotSupported("--out needs matplotlib, which is not installed: pip install 'anew[lab]'")
    content = figure(picture, form, dark=dark)
    try:
        write_whole(out, content)
    except OSError as error:
        message = (
            f"--out: {shown(str(out))} cannot be written ({error.strerror}); expected a place for a file"
        )
        raise InvalidInput(message, field="--out", value=str(out)) from error
    click.echo(f"wrote {out} ({len(content):,} bytes)", err=True)


def style_of(stream: Any, *, width: int | None = None, dark: bool | None = None) -> Style:
    """Tell what a stream can show.

    Args:
        stream: Where the picture goes.
        width: Characters across; None: the terminal's, 80 where there is none.
        dark: Its ground; None: as the terminal says (``COLORFGBG``), dark where it says nothing.
    """
    from anew.lab.charts.ink import Style

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
