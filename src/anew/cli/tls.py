"""``anew tls``: an authority of one's own, and the certificates that it issues to servers and clients."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from anew.cli.lazy import CommandGroup
from anew.cli.output import show_json
from anew.cli.settings import load
from anew.errors import InvalidInput, NotSupported
from anew.units import shown

if TYPE_CHECKING:
    from anew.app.issuing import Authority, Pair, Place

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 it is shown, and nothing is bound to it here
_CA: Final = "Anew CA"
_SERVER: Final = "Anew Server"
_LONGEST: Final = 36_500
"""Days: a hundred years."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


@click.group(cls=CommandGroup)
def tls() -> None:
    """Make certificates for servers and clients.

    They come from an authority of your own, which clients are told to trust by its certificate, ca-cert.pem. Its key, ca-key.pem,
    can make others that your clients trust: keep it, and do not copy it to the servers.

    \b
    Examples:
      anew tls init --san queue.example.org
      anew tls init --client worker-1 --client web
      anew tls client-cert --name worker-2
    """


def _days(default: int, name: str = "--days", what: str = "") -> Decorator:
    return click.option(
        name, type=click.IntRange(1, _LONGEST), default=default, metavar="N", help=f"Days that {what} is good. [{default}]"
    )  # fmt: skip


def _common_name(default: str) -> Decorator:
    return click.option("--cn", default=default, metavar="NAME", help=f"What people read in it. [{default}]")


_names: Final = click.option(
    "--san",
    "names",
    multiple=True,
    metavar="NAME",
    help="A host name or IP address that clients reach the server by; may be given again. [localhost, 127.0.0.1, ::1]",
)
_out_dir: Final = click.option(
    "--out-dir", metavar="PATH", help="Where the files are. [tls in the data directory: anew-data/tls]"
)
_root_dir: Final = click.option(
    "--root-dir", metavar="PATH", help="Data directory of the server. [ANEW_ROOT_DIR, anew.toml; anew-data]"
)
_overwrite: Final = click.option("--overwrite", is_flag=True, help="Replace what is there.")
_ca_cert: Final = click.option(
    "--ca-cert", metavar="PEM", help="Certificate of the authority. [ca-cert.pem there]"
)
_ca_key: Final = click.option("--ca-key", metavar="PEM", help="Its private key. [ca-key.pem there]")
_json: Final = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@tls.command("init")
@_names
@_days(365, what="a certificate of a server or client")
@_days(3650, "--ca-days", what="the authority")
@_common_name(_CA)
@_ca_cert
@_ca_key
@click.option(
    "--client", "clients", multiple=True, metavar="NAME", help="A client to certify; may be given again."
)
@_out_dir
@_root_dir
@_overwrite
@_json
def init(
    names: tuple[str, ...],
    days: int,
    ca_days: int,
    cn: str,
    ca_cert: str | None,
    ca_key: str | None,
    clients: tuple[str, ...],
    out_dir: str | None,
    root_dir: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Make an authority, a certificate for the server, and one for each client.

    What is there already stays as it is: run it again to add a client. Another authority is used where both of its files are named.

    \b
    Examples:
      anew tls init
      anew tls init --san queue.example.org --san 10.0.0.5 --client worker-1
      anew tls init --ca-cert my-ca.pem --ca-key my-ca-key.pem
    """
    issuing = _issuing()
    folder, now = _folder(out_dir, root_dir), datetime.now(UTC)
    for client in clients:
        _insist_on_a_name(client)
    if (ca_cert is None) is not (ca_key is None):
        given, missing = ("--ca-key", "--ca-cert") if ca_cert is None else ("--ca-cert", "--ca-key")
        raise InvalidInput(f"{given} is given without {missing}; expected both or neither", field=given[2:])
    done = _Done()
    place = issuing.Place(folder, "ca")
    if ca_cert is not None and ca_key is not None:
        trusted = Path(ca_cert)
        authority = issuing.read_authority(trusted, Path(ca_key))
    else:
        trusted = place.cert
        authority = done.authority(place, overwrite, lambda: issuing.new_authority(cn, ca_days, now))
    server = issuing.Place(folder, "server")
    done.issue(
        server, authority, overwrite, lambda: authority.for_server(names or _LOOPBACK, _SERVER, days, now)
    )
    own = {client: issuing.Place(folder, f"client-{client}") for client in clients}
    for client, place in own.items():
        done.issue(place, authority, overwrite, partial(authority.for_client, client, days, now))
    done.show(as_json, _next_steps(trusted, server, issuing.names_of(server.cert), [*own.values()][:1]))


@tls.command("ca")
@_days(3650, what="it")
@_common_name(_CA)
@_out_dir
@_root_dir
@_overwrite
@_json
def ca(days: int, cn: str, out_dir: str | None, root_dir: str | None, overwrite: bool, as_json: bool) -> None:
    """Make an authority: ca-cert.pem, which clients trust, and ca-key.pem, which issues certificates.

    \b
    Examples:
      anew tls ca
      anew tls ca --cn 'Example Org' --days 7300 --out-dir /etc/anew/tls
    """
    issuing = _issuing()
    place = issuing.Place(_folder(out_dir, root_dir), "ca")
    if not overwrite:
        place.insist_on_room()
    _make(place, issuing.new_authority(cn, days, datetime.now(UTC)).pair, as_json)


@tls.command("server-cert")
@_names
@_days(365, what="it")
@_common_name(_SERVER)
@_ca_cert
@_ca_key
@_out_dir
@_root_dir
@_overwrite
@_json
def server_cert(
    names: tuple[str, ...], cn: str, days: int, overwrite: bool, as_json: bool, **given: str | None
) -> None:
    """Issue a certificate for a server: server-cert.pem and server-key.pem.

    \b
    Examples:
      anew tls server-cert --san queue.example.org
      anew tls server-cert --san queue.example.org --overwrite      before the old one ends; then: kill -HUP
    """
    place, authority = _place_and_authority("server", overwrite, given)
    _make(place, authority.for_server(names or _LOOPBACK, cn, days, datetime.now(UTC)), as_json)


@tls.command("client-cert")
@click.option("--name", required=True, metavar="NAME", help="The client's name: letters, digits, . _ and -.")
@_days(365, what="it")
@_ca_cert
@_ca_key
@_out_dir
@_root_dir
@_overwrite
@_json
def client_cert(name: str, days: int, overwrite: bool, as_json: bool, **given: str | None) -> None:
    """Issue a certificate for a client: client-NAME-cert.pem and client-NAME-key.pem.

    A server asks for one where it is started with --tls-client-ca ca-cert.pem.

    \b
    Examples:
      anew tls client-cert --name worker-1
      anew tls client-cert --name worker-1 --days 30 --overwrite
    """
    _issuing()
    _insist_on_a_name(name)
    place, authority = _place_and_authority(f"client-{name}", overwrite, given)
    _make(place, authority.for_client(name, days, datetime.now(UTC)), as_json)


def _place_and_authority(name: str, overwrite: bool, given: dict[str, str | None]) -> tuple[Place, Authority]:
    """Give where a certificate goes, and who issues it."""
    issuing = _issuing()
    folder = _folder(given["out_dir"], given["root_dir"])
    place, own = issuing.Place(folder, name), issuing.Place(folder, "ca")
    if not overwrite:
        place.insist_on_room()
    cert, key = given["ca_cert"], given["ca_key"]
    return place, issuing.read_authority(Path(cert or own.cert), Path(key or own.key))


def _make(place: Place, pair: Pair, as_json: bool) -> None:
    done = _Done()
    done.make(place, pair)
    done.show(as_json)


class _Done:
    """What has been made, and what was there already."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def make(self, place: Place, pair: Pair) -> None:
        """Write a certificate and its key."""
        place.write(pair)
        self._note(place, made=True)

    def authority(self, place: Place, overwrite: bool, new: Callable[[], Authority]) -> Authority:
        """Give the authority that is there, or a new one."""
        if not overwrite and place.is_taken():
            kept: Authority = _issuing().read_authority(place.cert, place.key)
            self._note(place, made=False)
            return kept
        authority = new()
        self.make(place, authority.pair)
        return authority

    def issue(self, place: Place, authority: Authority, overwrite: bool, new: Callable[[], Pair]) -> None:
        """Issue a certificate, unless there is one."""
        if overwrite or not place.is_taken():
            self.make(place, new())
        else:
            self._note(place, made=False, ours=authority.has_issued(place.cert))

    def _note(self, place: Place, *, made: bool, ours: bool = True) -> None:
        ends = _issuing().ends_of(place.cert)
        self._rows.append(
            {
                "cert": str(place.cert),
                "key": str(place.key),
                "made": made,
                "issued_by_authority": ours,
                "ends": f"{ends:%Y-%m-%dT%H:%M:%SZ}",
            }
        )

    def show(self, as_json: bool, next_steps: Sequence[str] = ()) -> None:
        """Print it."""
        if as_json:
            show_json({"certificates": self._rows, "next": [step.strip() for step in next_steps]})
            return
        for row in self._rows:
            word = "made" if row["made"] else "kept"
            foreign = (
                "" if row["issued_by_authority"] else "; another authority has issued it, see --overwrite"
            )
            click.echo(f"{word}  {row['cert']}  (ends {row['ends'][:10]}{foreign})")
            click.echo(f"{word}  {row['key']}  (private)")
        for step in ("", *next_steps) if next_steps else ():
            click.echo(step)


def _next_steps(
    trusted: Path, server: Place, names: Sequence[str], clients: Sequence[Place]
) -> Sequence[str]:
    """Say what to type next: a server that others can reach, and a job for it."""
    host = next((name for name in names if not name.startswith("*.")), "HOST")
    host = f"[{host}]" if ":" in host else host
    serve = [
        "anew",
        "serve",
        "--host",
        _EVERYWHERE,
        "--tls-cert",
        str(server.cert),
        "--tls-key",
        str(server.key),
    ]
    job = ["anew", "enqueue", "greet", "--queue", "hello", '{"name": "Ada"}', "--url", f"https://{host}:7890"]
    job += ["--ca-cert", str(trusted)]
    if clients:
        serve += ["--tls-client-ca", str(trusted)]
        job += ["--client-cert", str(clients[0].cert), "--client-key", str(clients[0].key)]
        export = []
    else:
        export = [f"  export ANEW_TOKEN={secrets.token_urlsafe(32)}"]
    return [
        f"Start a server that others can reach{'' if clients else ', with a token that nobody can guess'}:",
        *export,
        f"  {shlex.join(serve)}",
        "and give it a job, from another terminal or machine:",
        *export,
        f"  {shlex.join(job)}",
        "The port of Faktory's clients takes the same certificate: --fwp-tls-cert and --fwp-tls-key.",
    ]


def _folder(out_dir: str | None, root_dir: str | None) -> Path:
    if out_dir:
        return Path(out_dir)
    from anew.app.doctor import directory_of  # only here: help starts fast

    root = directory_of(load({"root_dir": root_dir, "no_fwp": True}).settings)
    return tls_folder(root)


def tls_folder(root: Path) -> Path:
    """Give the folder of certificates that belongs to a data directory, or to a database file."""
    return (root.parent if root.suffix in _FILE_ENDINGS and not root.is_dir() else root) / "tls"


_FILE_ENDINGS: Final = (".db", ".sqlite", ".sqlite3")


def _insist_on_a_name(name: str) -> None:
    if not _issuing().NAME.fullmatch(name):
        raise InvalidInput(
            f"{shown(name)} is not valid as a client's name; expected up to 64 letters, digits, dots, underscores and "
            "hyphens, a dot not first",
            field="name",
            value=name,
        )


def _issuing() -> Any:
    try:
        from anew.app import issuing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise NotSupported(
            "anew tls needs cryptography, which is not installed: pip install 'anew[tls]'; a server takes certificates from "
            "elsewhere without it"
        ) from error
    return issuing
