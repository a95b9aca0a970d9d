"""A listener's certificate: read from files, refused by name, read again."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from anew.errors import InvalidConfig
from anew.net.certificate import HTTP_ALPN, Certificate, TlsFiles, not_after
from tests.unit.net.loopback import CERTIFICATES

IN_2120 = 4_733_510_400_000
"""2120-01-01, as make.sh beside the certificates says."""


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    for name in ("server.pem", "server.key", "client.key", "locked.key", "root.pem"):
        (tmp_path / name).write_bytes((CERTIFICATES / name).read_bytes())
        (tmp_path / name).chmod(0o600)
    return TlsFiles(cert=tmp_path / "server.pem", key=tmp_path / "server.key")


def test_it_says_when_it_ends(files: TlsFiles) -> None:
    assert Certificate(files).expires_at == IN_2120


@pytest.mark.parametrize("year", [2026, 2049, 2050, 2120])
def test_both_forms_of_a_time_are_read(year: int) -> None:
    """RFC 5280, 4.1.2.5: two digits of the year through 2049, four from 2050 on."""
    ends = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" * 60)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .serial_number(1 << 150)
        .public_key(key.public_key())
        .not_valid_before(ends - timedelta(days=1))
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    assert not_after(made.public_bytes(Encoding.DER)) == int(ends.timestamp()) * 1000


def test_it_asks_for_what_it_is_told_to(files: TlsFiles) -> None:
    plain = Certificate(files, HTTP_ALPN)
    assert plain.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert plain.context.verify_mode is ssl.CERT_NONE
    strict = Certificate(
        TlsFiles(cert=files.cert, key=files.key, client_ca=files.cert.with_name("root.pem"), minimum="1.3")
    )
    assert strict.context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert strict.context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("cert", "gone.pem", r"--tls-cert: \".*gone.pem\" cannot be used \(no such file or directory\)"),
        (
            "cert",
            ".",
            r"--tls-cert: .* cannot be used \(is a directory\); expected a certificate in PEM form",
        ),
        ("cert", "server.key", r"--tls-cert: .* cannot be used \(it holds no certificate\)"),
        ("cert", "torn.pem", r"--tls-cert: .* cannot be used \(it holds no certificate\)"),
        ("key", "gone.key", r"--tls-key: \".*gone.key\" cannot be used \(no such file or directory\)"),
        (
            "key",
            ".",
            r"--tls-key: .* cannot be used \(is a directory\); expected the certificate's private key",
        ),
        (
            "key",
            "client.key",
            r"--tls-key: .* cannot be used \(it does not belong to the certificate .*server.pem",
        ),
        ("key", "locked.key", r"--tls-key: .* cannot be used .* in PEM form, without a password"),
        ("key", "server.pem", r"--tls-key: .* cannot be used \(.+\); expected the certificate's private key"),
        (
            "client_ca",
            "gone.pem",
            r"--tls-client-ca: .* \(no such file or directory\); expected certificates of",
        ),
        ("client_ca", "server.key", r"--tls-client-ca: .* cannot be used \(.+\); expected certificates of"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(files: TlsFiles, name: str, other: str, said: str) -> None:
    folder = files.cert.parent
    (folder / "torn.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    chosen = {"cert": files.cert, "key": files.key} | {name: folder / other}
    with pytest.raises(InvalidConfig, match=said):
        Certificate(TlsFiles(**chosen))  # type: ignore[arg-type]


def test_a_key_that_others_may_read_is_refused(files: TlsFiles) -> None:
    files.key.chmod(0o640)
    Certificate(files)
    files.key.chmod(0o644)
    with pytest.raises(
        InvalidConfig, match=r"other users of this machine may read it\); expected mode 0600: chmod"
    ):
        Certificate(files)


def test_files_are_read_again_and_bad_ones_change_nothing(files: TlsFiles) -> None:
    certificate = Certificate(files)
    first = certificate.context
    certificate.reload()
    second = certificate.context
    assert second is not first
    files.key.write_bytes(files.key.with_name("client.key").read_bytes())
    with pytest.raises(InvalidConfig, match="does not belong to the certificate"):
        certificate.reload()
    assert (certificate.context, certificate.expires_at) == (second, IN_2120)
