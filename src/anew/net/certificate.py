"""The certificate that a listener shows, and whose certificates it asks for: read from files, and read again while it listens."""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from anew.errors import InvalidConfig
from anew.units import reason_of

HTTP_ALPN: Final = ("h2", "http/1.1")
"""What an HTTP listener offers, the preferred one first (RFC 7301)."""

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_A_CERTIFICATE: Final = "a certificate in PEM form, those that lead up to its authority behind it"
_A_KEY: Final = "the certificate's private key in PEM form, without a password"
_AN_AUTHORITY: Final = "certificates of authorities in PEM form"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where one listener's certificate is, and which clients it lets in.

    Attributes:
        cert: Certificate, with those that lead up to its authority (PEM).
        key: Its private key, without a password (PEM).
        client_ca: Authorities of which each client must bring a certificate (PEM); None asks for none.
        minimum: Oldest version of TLS that is spoken.
        prefix: What the flags begin with that name these files, for errors: ``--tls-``, ``--fwp-tls-``.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    minimum: Literal["1.2", "1.3"] = "1.2"
    prefix: str = "--tls-"


class Certificate:
    """What the TLS connections of one listener share.

    Args:
        files: Where to read it from.
        alpn: Protocols to offer, the preferred one first; none for a listener that has one only.

    Attributes:
        files: As given.
        context: What new connections are made with.
        expires_at: When the certificate ends, milliseconds since the epoch.

    Raises:
        InvalidConfig: A file cannot be read, or does not fit; the message names the flag, the file and the reason.
    """

    def __init__(self, files: TlsFiles, alpn: Sequence[str] = ()) -> None:
        self.files = files
        self._alpn = list(alpn)
        self.reload()

    def reload(self) -> None:
        """Read the files again: connections that come from now on get what they hold, open ones stay as they are.

        Raises:
            InvalidConfig: They cannot be used; then everything stays as it was.
        """
        files = self.files
        expires_at = _end_of(files)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[files.minimum]
        # A client that asks for new keys again and again would cost much.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        if self._alpn:
            context.set_alpn_protocols(self._alpn)
        _load_pair(context, files)
        if files.client_ca is not None:
            _load_authorities(context, files.client_ca, f"{files.prefix}client-ca")
        self.context, self.expires_at = context, expires_at


def _end_of(files: TlsFiles) -> int:
    flag = f"{files.prefix}cert"
    try:
        text = files.cert.read_text(encoding="ascii")
        begin = text.index(ssl.PEM_HEADER)
        end = text.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
        return not_after(ssl.PEM_cert_to_DER_cert(text[begin:end]))
    except OSError as error:
        raise _unusable(flag, files.cert, reason_of(error), _A_CERTIFICATE) from error
    except (ValueError, IndexError) as error:
        raise _unusable(flag, files.cert, "it holds no certificate", _A_CERTIFICATE) from error


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    flag = f"{files.prefix}key"
    try:
        with files.key.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            file.read(1)  # a directory can be opened
    except OSError as error:
        raise _unusable(flag, files.key, reason_of(error), _A_KEY) from error
    if mode & 0o004:
        raise _unusable(
            flag, files.key, "other users of this machine may read it", f"mode 0600: chmod 600 {files.key}"
        )
    try:
        # A password of our own keeps OpenSSL from asking for one at the terminal.
        context.load_cert_chain(files.cert, files.key, password="")
    except ssl.SSLError as error:
        foreign = error.reason == "KEY_VALUES_MISMATCH"
        why = f"it does not belong to the certificate {files.cert}" if foreign else _said(error)
        raise _unusable(flag, files.key, why, _A_KEY) from error


def _load_authorities(context: ssl.SSLContext, file: Path, flag: str) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except ssl.SSLError as error:
        raise _unusable(flag, file, _said(error), _AN_AUTHORITY) from error
    except OSError as error:
        raise _unusable(flag, file, reason_of(error), _AN_AUTHORITY) from error
    context.verify_mode = ssl.CERT_REQUIRED


def _said(error: ssl.SSLError) -> str:
    return (error.reason or "it is not in PEM form").lower().replace("_", " ")


def _unusable(flag: str, file: Path, why: str, expected: str) -> InvalidConfig:
    message = f'{flag}: "{file}" cannot be used ({why}); expected {expected}'
    return InvalidConfig(message, field=flag.lstrip("-"), value=str(file))


def not_after(der: bytes) -> int:
    """Give when a certificate ends, milliseconds since the epoch.

    Python shows this of a certificate that a peer has sent, and not of one in a file.

    Raises:
        ValueError: This is no certificate.
        IndexError: It is cut off.

    Source:
        RFC 5280, 4.1: Certificate, TBSCertificate, Validity; X.690 for the encoding.
    """
    ((_, certificate),) = _elements(der)
    (_, signed), *_ = _elements(certificate)
    members = [content for tag, content in _elements(signed) if tag != _VERSION]
    _serial, _algorithm, _issuer, validity, *_ = members
    _, (tag, text) = _elements(validity)
    if tag == _UTC_TIME:  # the two digits of its year mean 1950 to 2049
        text = (b"19" if text[:2] >= b"50" else b"20") + text
    ends = datetime.strptime(text.decode("ascii"), "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(ends.timestamp()) * 1000


_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Cut DER into the elements that stand side by side in it, each with its tag."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            more = size & 0x7F
            size, at = int.from_bytes(data[at : at + more], "big"), at + more
        if at + size > len(data):
            raise ValueError("an element is cut off")
        found.append((tag, data[at : at + size]))
        at += size
    return found
