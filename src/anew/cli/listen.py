"""``anew listen``: a receiver of webhooks on this machine, which shows what arrives and answers as it is told."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import click
import msgspec

from anew.cli.output import clock_time, coloured, cut, now_ms, one_line, paint
from anew.cli.remote import given_text
from anew.errors import InvalidInput, NotSupported, Unavailable
from anew.units import counted, reason_of

if TYPE_CHECKING:
    from anew.topics.receiver import Arrival, Incoming, Receiver, Tally

PORT: Final = 7892
VARIABLE: Final = "ANEW_WEBHOOK_SECRET"

_SHORT: Final = 160
"""Characters of a body, or of a header, that are shown unless all is asked for."""

_FILE_BYTES: Final = 64 << 10
"""No file of secrets is longer."""

_COLOUR_OF: Final = {"good": "completed", "bad": "dead", "old": "dead", "missing": "dead"}


@click.command()
@click.argument("port", type=click.IntRange(0, 65_535), default=PORT, metavar="[PORT]")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Address to bind. [127.0.0.1]")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="SECRET",
    help="Check signatures: whsec_..., or whpk_...; repeatable.",
)
@click.option(
    "--secret-file", "files", multiple=True, metavar="FILE", help="Read secrets from a file, or - for stdin."
)
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="LIST",
    help="Answers, one a message; the last one repeats. [200]",
)
@click.option("--loop", is_flag=True, help="Begin again after the last answer.")
@click.option(
    "--no-confirm", is_flag=True, help="Do not confirm subscriptions; answer as a message is answered."
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many requests.")
@click.option("--full", is_flag=True, help="Show all headers and the whole body.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def listen(
    port: int,
    host: str,
    secrets: tuple[str, ...],
    files: tuple[str, ...],
    answers: tuple[str, ...],
    loop: bool,
    no_confirm: bool,
    count: int | None,
    full: bool,
    as_json: bool,
) -> int:
    """Receive webhooks on this machine: show each request, check its signature, answer by a script.

    PORT is 7892 unless given; 0 takes a free one. Needs aiohttp: pip install 'anew[webhooks]'.

    \b
    LIST has answers with commas between them:
      503           a status                       429:30        with Retry-After: 30
      slow, slow:2  200 after 5 s, after 2 s       redirect:URL  302
      drop          closes the connection          hang          never answers
      disable       200, and asks to be disabled   abort         400, and asks to give up

    A request that asks whether a subscription is wanted gets its challenge back; where there is a secret, only if
    the signature is good, else 401. A sender of CloudEvents that asks by OPTIONS is allowed.

    Other users of this machine can see --secret in the list of processes. ANEW_WEBHOOK_SECRET is read where neither
    --secret nor --secret-file is given; several secrets have blanks between them.

    \b
    Examples:
      anew listen
      anew listen 9000 --answer 503,503,200
      anew listen --secret-file whsec.txt --answer 429:30,slow,200 --loop
      ANEW_WEBHOOK_SECRET=whsec_... anew listen --count 1 --full
      anew listen 0 --json

    \b
    Exit codes: 0 ended by Ctrl-C, SIGTERM or --count, 1 the address cannot be listened on, 2 usage,
    5 aiohttp is not installed.
    """
    from anew.topics.receiver import Receiver, Script, read_script

    receiver = Receiver(
        Script(read_script(answers or ("200",)), loop=loop),
        secrets=_secrets(secrets, files, os.environ),
        confirm=not no_confirm,
    )
    _require_aiohttp()
    printer: _Printer = _JsonLines(full) if as_json else _Lines(full)
    asyncio.run(_listen(receiver, printer, host, port, count))
    return 0


def _secrets(given: Sequence[str], files: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Read the secrets of the options; without any, those of the variable."""
    from anew.topics.receiver import read_secrets

    if not (given or files):
        return read_secrets([environ.get(VARIABLE, "")], VARIABLE)
    read = [
        given_text(file if file == "-" else f"@{file}", _FILE_BYTES).decode(errors="replace")
        for file in files
    ]
    found = (*read_secrets(given, "--secret"), *read_secrets(read, "--secret-file"))
    if not found:
        # Else everything would pass for unchecked, and nobody would notice.
        field = "--secret-file" if files else "--secret"
        raise InvalidInput(f"{field}: there is no secret in it; expected whsec_... or whpk_...", field=field)
    return found


def _require_aiohttp() -> None:
    try:
        import anew.topics.receiver_server  # noqa: F401 - to know that it can be
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise NotSupported(
            "aiohttp is not installed, which receives webhooks: pip install 'anew[webhooks]'"
        ) from error


async def _listen(receiver: Receiver, printer: _Printer, host: str, port: int, count: int | None) -> None:
    from anew.app.running import address_of, stop_signals
    from anew.topics.receiver_server import ReceiverServer

    server = ReceiverServer(receiver, printer.arrival, now_ms, count)
    for number in stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, server.stop)
    try:
        try:
            bound = await server.listen(host, port)
        except OSError as error:
            raise _cannot_listen(address_of(host, port), error) from error
        printer.listening(f"http://{address_of(*bound)}/")
        await server.ended
    finally:
        await server.close()
    printer.ended(receiver.tally)


def _cannot_listen(address: str, error: OSError) -> Unavailable:
    # asyncio's own text repeats the address; a name that is not known has a negative number, which strerror knows not.
    number = error.errno or 0
    reason = os.strerror(number).lower() if number > 0 else reason_of(error)
    return Unavailable(
        f"cannot listen on {address} ({reason}); expected an address of this machine and a port that no other program "
        "has (0 takes a free one)"
    )


class _Printer(Protocol):
    """Prints what happens."""

    def listening(self, url: str) -> None:
        """Print the address."""

    def arrival(self, arrival: Arrival) -> None:
        """Print a request and its answer."""

    def ended(self, tally: Tally) -> None:
        """Print what has come in all."""


class _Lines:
    """Prints for people: a line for a request, and its body below it.

    Args:
        full: All headers, and the whole body.
    """

    def __init__(self, full: bool) -> None:
        self._full = full
        self._colour = coloured(sys.stdout)

    def listening(self, url: str) -> None:
        click.echo(f"Receiving webhooks at {url}  (end it with Ctrl-C)")

    def arrival(self, arrival: Arrival) -> None:
        incoming, reply = arrival.incoming, arrival.reply
        status = reply.status or 0
        parts = [
            clock_time(arrival.at, now_ms()),
            _line(f"{incoming.method} {incoming.target}"),
            *(text for text in _facts(arrival) if text),
            self._painted(f"signature {arrival.signature}", _COLOUR_OF.get(arrival.signature, "")),
            "-> " + self._painted(_line(reply.words()), "completed" if 200 <= status < 300 else "failed"),
        ]
        click.echo("  ".join(parts))
        for line in self._body(incoming):
            click.echo(f"    {line}")

    def ended(self, tally: Tally) -> None:
        click.echo(
            f"{counted(tally.received, 'request')}, {counted(tally.repeated, 'repeated id')}, "
            f"{counted(tally.bad_signatures, 'bad signature')}"
        )
        for kind, number in tally.types.most_common():
            click.echo(f"  {number:>6}  {_line(kind) or '(no type)'}")

    def _body(self, incoming: Incoming) -> list[str]:
        if incoming.body is None:
            return ["(longer than 1 MiB: not read)"]
        text = incoming.body.decode(errors="replace")
        if not self._full:
            return [_line(text)] if text else []
        headers = [one_line(f"{name}: {value}") for name, value in incoming.headers.items()]
        return [*headers, "", *map(one_line, text.splitlines())]

    def _painted(self, text: str, status: str) -> str:
        return paint(text, status, colour=self._colour)


def _facts(arrival: Arrival) -> list[str]:
    """Give what the headers say of a message; empty where they do not."""
    header = arrival.incoming.headers.get
    return [
        _line(header("webhook-id", "")) + (" (repeated)" if arrival.repeated else ""),
        _line(arrival.type),
        _line(f"topic {topic}" if (topic := header("anew-topic")) else ""),
        _line(f"attempt {attempt}" if (attempt := header("anew-attempt")) else ""),
        "redelivery" if header("anew-redelivery") else "",
    ]


class _JsonLines:
    """Prints for programs: an object a line.

    Args:
        full: All headers, and the whole body.
    """

    def __init__(self, full: bool) -> None:
        self._full = full

    def listening(self, url: str) -> None:
        self._print({"event": "listening", "url": url})

    def arrival(self, arrival: Arrival) -> None:
        incoming = arrival.incoming
        header = incoming.headers.get
        body = None if incoming.body is None else incoming.body.decode(errors="replace")
        self._print(
            {
                "event": "request",
                "at": arrival.at,
                "method": incoming.method,
                "path": incoming.target,
                "webhook_id": header("webhook-id"),
                "type": arrival.type or None,
                "topic": header("anew-topic"),
                "subscription_id": header("anew-subscription-id"),
                "delivery_id": header("anew-delivery-id"),
                "attempt": _number(header("anew-attempt")),
                "redelivery": header("anew-redelivery") == "true",
                "repeated": arrival.repeated,
                "signature": arrival.signature,
                "status": arrival.reply.status,
                "answer": arrival.reply.words(),
                "body_bytes": None if incoming.body is None else len(incoming.body),
                "body": body if self._full or body is None else next(iter(cut([body], _SHORT))),
            }
            | ({"headers": incoming.headers} if self._full else {})
        )

    def ended(self, tally: Tally) -> None:
        self._print(
            {
                "event": "ended",
                "received": tally.received,
                "types": dict(tally.types),
                "repeated": tally.repeated,
                "bad_signatures": tally.bad_signatures,
            }
        )

    def _print(self, value: dict[str, Any]) -> None:
        click.echo(msgspec.json.encode(value).decode())


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def _line(text: str) -> str:
    """Give the beginning of a text on one line."""
    (line,) = cut([one_line(text[: _SHORT + 1])], _SHORT)
    return line
