"""Makes certificates: an authority of one's own, and what it issues to servers and clients; keeps each beside its key.

Needs the package `cryptography`, which only who makes certificates has: a server reads its own without it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificateIssuerPrivateKeyTypes,
    CertificatePublicKeyTypes,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from anew.errors import Conflict, InvalidConfig, InvalidInput
from anew.units import reason_of, shown

NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""What a client may be called: it names files too, and a common name has 64 characters at most (RFC 5280, appendix A)."""

_COMMON_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,64}")
_HOST: Final = re.compile(r"(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_-]{1,63}")
_SKEW: Final = timedelta(hours=1)
"""How long before now a certificate begins: the clock of another machine may be behind."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, in PEM form."""

    cert: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that can issue certificates.

    Attributes:
        pair: As it is stored.
    """

    pair: Pair
    _certificate: x509.Certificate
    _key: CertificateIssuerPrivateKeyTypes = field(repr=False)

    def for_server(self, names: Sequence[str], common_name: str, days: int, now: datetime) -> Pair:
        """Issue what a server shows.

        Args:
            names: Host names and IP addresses that clients reach it by.
            common_name: What people read.
            days: How long it is good; never for longer than the authority itself.
            now: The time.

        Raises:
            InvalidInput: A name does not fit.
        """
        alternative = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue(common_name, days, now, ExtendedKeyUsageOID.SERVER_AUTH, alternative=alternative)

    def for_client(self, name: str, days: int, now: datetime) -> Pair:
        """Issue what a client shows; its common name is its name."""
        return self._issue(name, days, now, ExtendedKeyUsageOID.CLIENT_AUTH)

    def has_issued(self, cert: Path) -> bool:
        """Say whether a certificate in a file is one of this authority."""
        try:
            x509.load_pem_x509_certificate(cert.read_bytes()).verify_directly_issued_by(self._certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _issue(
        self,
        common_name: str,
        days: int,
        now: datetime,
        usage: x509.ObjectIdentifier,
        alternative: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        ends = min(now + timedelta(days=days), self._certificate.not_valid_after_utc)
        builder = (
            _begun(common_name, key.public_key(), now, ends, is_authority=False)
            .issuer_name(self._certificate.subject)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_issuer_key(self._certificate), critical=False)
        )
        if alternative is not None:
            builder = builder.add_extension(alternative, critical=False)
        return _pair(builder.sign(self._key, _digest(self._key)), key)


def new_authority(common_name: str, days: int, now: datetime) -> Authority:
    """Make an authority of one's own.

    Raises:
        InvalidInput: The name does not fit.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _begun(common_name, key.public_key(), now, now + timedelta(days=days), is_authority=True)
    own = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    certificate = (
        builder.issuer_name(_subject(common_name))
        .add_extension(own, critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_pair(certificate, key), certificate, key)


def read_authority(cert: Path, key: Path) -> Authority:
    """Read an authority from its two files.

    Raises:
        InvalidConfig: One of them cannot be read, is not that of an authority, or does not belong to the other.
    """
    cert_pem = _content(cert, "--ca-cert", "the certificate of an authority in PEM form")
    key_pem = _content(key, "--ca-key", "the authority's private key in PEM form, without a password")
    try:
        certificate = x509.load_pem_x509_certificate(cert_pem)
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound):
        is_authority = False
    if not is_authority:
        raise _unusable("--ca-cert", cert, "the certificate of an authority in PEM form")
    try:
        private = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError) as error:  # TypeError: it has a password
        raise _unusable(
            "--ca-key", key, "the authority's private key in PEM form, without a password"
        ) from error
    if _raw(private.public_key()) != _raw(certificate.public_key()):
        raise _unusable("--ca-key", key, f"the key of {cert}")
    # What has signed a certificate can sign others.
    return Authority(Pair(cert_pem, key_pem), certificate, private)  # type: ignore[arg-type]


def ends_of(cert: Path) -> datetime:
    """Give when a certificate in a file ends.

    Raises:
        InvalidConfig: There is none.
    """
    try:
        return x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise _unusable("--out-dir", cert, "a certificate in PEM form, or --overwrite") from error


def names_of(cert: Path) -> list[str]:
    """Give the names that a certificate in a file is for; none if it has none, or is none."""
    try:
        certificate = x509.load_pem_x509_certificate(cert.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return []
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a certificate and its key are: ``server-cert.pem`` and ``server-key.pem`` of a folder.

    Args:
        folder: The folder.
        name: What both begin with.
    """

    folder: Path
    name: str

    @property
    def cert(self) -> Path:
        """The file of the certificate."""
        return self.folder / f"{self.name}-cert.pem"

    @property
    def key(self) -> Path:
        """The file of its key."""
        return self.folder / f"{self.name}-key.pem"

    def is_taken(self) -> bool:
        """Say whether both files are there.

        Raises:
            Conflict: One is there without the other.
        """
        there = [file for file in (self.cert, self.key) if os.path.lexists(file)]
        if len(there) == 1:
            raise Conflict(
                f"{there[0]} is there without its other half; expected both or neither; --overwrite makes both"
            )
        return bool(there)

    def insist_on_room(self) -> None:
        """Refuse to touch what is there.

        Raises:
            Conflict: One of the files is there.
        """
        for file in (self.cert, self.key):
            if os.path.lexists(file):
                raise Conflict(f"{file} is there already; expected none, or --overwrite")

    def write(self, pair: Pair) -> None:
        """Write both files, the key readable by its owner alone from its first moment on.

        Raises:
            InvalidConfig: The folder cannot be written to.
        """
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            _write(self.key, pair.key, 0o600)
            _write(self.cert, pair.cert, 0o644)
        except OSError as error:
            message = f"--out-dir: {shown(str(self.folder))} cannot be written to ({reason_of(error)})"
            raise InvalidConfig(message, field="out-dir", value=str(self.folder)) from error


def _write(file: Path, content: bytes, mode: int) -> None:
    """Put a file in its place whole, or not at all."""
    beside = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    # Made with its mode: a file that is made for all and closed to them after that can be opened in between.
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(beside, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _begun(
    common_name: str, key: CertificatePublicKeyTypes, now: datetime, ends: datetime, *, is_authority: bool
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(common_name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _SKEW)
        .not_valid_after(ends.astimezone(UTC))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(common_name: str) -> x509.Name:
    if not _COMMON_NAME.fullmatch(common_name):
        raise InvalidInput(
            f"--cn: {shown(common_name)} is not valid; expected 1 to 64 characters",
            field="cn",
            value=common_name,
        )
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    if len(name) <= 253 and _HOST.fullmatch(name):
        return x509.DNSName(name)
    raise InvalidInput(
        f"--san: {shown(name)} is not valid; expected a host name such as queue.example.org, without port, or an IP address",
        field="san",
        value=name,
    )


def _issuer_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _digest(key: CertificateIssuerPrivateKeyTypes) -> hashes.SHA256 | None:
    """Give the hash that a key signs; Edwards curves bring their own."""
    edwards = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    return None if edwards else hashes.SHA256()


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    return Pair(
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _raw(key: object) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.DER, form)  # type: ignore[attr-defined, no-any-return]


def _content(file: Path, flag: str, expected: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        message = f"{flag}: {file} cannot be read ({reason_of(error)}); expected {expected}"
        raise InvalidConfig(message, field=flag.lstrip("-"), value=str(file)) from error


def _unusable(flag: str, file: Path, expected: str) -> InvalidConfig:
    return InvalidConfig(
        f"{flag}: {file} cannot be used; expected {expected}", field=flag.lstrip("-"), value=str(file)
    )
