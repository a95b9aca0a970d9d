"""An authority of one's own, what it issues, and how files and their keys are kept."""

from __future__ import annotations

import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from anew.app import issuing
from anew.app.issuing import Authority, Pair, Place, new_authority, read_authority
from anew.errors import Conflict, InvalidConfig, InvalidInput

NOW = datetime(2026, 11, 27, 18, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return new_authority("Anew CA", 3650, NOW)


def read(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.cert)


def kept(folder: Path, authority: Authority) -> Place:
    place = Place(folder, "ca")
    place.write(authority.pair)
    return place


def test_an_authority_may_issue_and_nothing_else(authority: Authority) -> None:
    made = read(authority.pair)
    assert made.subject == made.issuer == x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Anew CA")])
    assert made.not_valid_after_utc == NOW + timedelta(days=3650)
    assert made.not_valid_before_utc == NOW - timedelta(hours=1)  # clocks differ
    basic = made.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca) == (True, True)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.crl_sign) == (True, True, True)
    made.verify_directly_issued_by(made)


def test_a_servers_certificate_has_its_names_and_its_purpose(authority: Authority) -> None:
    names = ["queue.example.org", "*.queue.example.org", "localhost", "10.0.0.5", "::1", "[2001:db8::1]"]
    made = read(authority.for_server(names, "Anew Server", 365, NOW))
    alternative = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternative.get_values_for_type(x509.DNSName) == names[:3]
    addresses = [ip_address("10.0.0.5"), ip_address("::1"), ip_address("2001:db8::1")]
    assert alternative.get_values_for_type(x509.IPAddress) == addresses
    purpose = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purpose) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert made.not_valid_after_utc == NOW + timedelta(days=365)
    made.verify_directly_issued_by(read(authority.pair))


def test_a_clients_certificate_has_its_name_and_its_purpose(authority: Authority) -> None:
    made = read(authority.for_client("worker-1", 30, NOW))
    assert made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "worker-1"
    purpose = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purpose) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_nothing_outlives_its_authority() -> None:
    short = new_authority("short", 10, NOW)
    assert read(short.for_client("c", 365, NOW)).not_valid_after_utc == NOW + timedelta(days=10)


def test_no_two_certificates_have_a_key_or_a_number_in_common(authority: Authority) -> None:
    pairs = [authority.for_client("c", 1, NOW) for _ in range(3)]
    assert len({pair.key for pair in pairs}) == len({read(pair).serial_number for pair in pairs}) == 3


@pytest.mark.parametrize(
    "name", ["", "a b", "queue.example.org:7890", "https://x", "a..b", ".example.org", "x" * 254, "1.2.3.4/8"]
)
def test_a_name_that_is_none_is_refused(authority: Authority, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"--san: .* is not valid; expected a host name such as"):
        authority.for_server([name], "Anew Server", 1, NOW)


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb"])
def test_a_common_name_has_1_to_64_characters(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"--cn: .* is not valid; expected 1 to 64 characters"):
        new_authority(name, 1, NOW)


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_an_authority_from_elsewhere_may_have_another_kind_of_key(tmp_path: Path, kind: str) -> None:
    key = (
        ed25519.Ed25519PrivateKey.generate()
        if kind == "ed25519"
        else rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "elsewhere")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .serial_number(1)
        .public_key(key.public_key())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=100))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    certificate = builder.sign(key, issuing._digest(key))
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "c").write_bytes(certificate.public_bytes(pem))
    (tmp_path / "k").write_bytes(private)
    authority = read_authority(tmp_path / "c", tmp_path / "k")
    read(authority.for_client("c", 365, NOW)).verify_directly_issued_by(certificate)


def test_files_that_are_no_authority_are_refused(tmp_path: Path, authority: Authority) -> None:
    own = kept(tmp_path, authority)
    client = Place(tmp_path, "client-c")
    client.write(authority.for_client("c", 1, NOW))
    gone = tmp_path / "gone"
    locked = tmp_path / "locked"
    key = serialization.load_pem_private_key(authority.pair.key, None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for cert, private, said in (
        (
            gone,
            own.key,
            r"--ca-cert: .*gone cannot be read \(no such file or directory\); expected the certificate",
        ),
        (own.cert, gone, r"--ca-key: .*gone cannot be read"),
        (
            client.cert,
            client.key,
            r"--ca-cert: .*client-c-cert.pem cannot be used; expected the certificate of an authority",
        ),
        (own.key, own.key, r"--ca-cert: .*ca-key.pem cannot be used"),
        (
            own.cert,
            client.key,
            r"--ca-key: .*client-c-key.pem cannot be used; expected the key of .*ca-cert.pem",
        ),
        (
            own.cert,
            own.cert,
            r"--ca-key: .* expected the authority's private key in PEM form, without a password",
        ),
        (
            own.cert,
            locked,
            r"--ca-key: .* expected the authority's private key in PEM form, without a password",
        ),
    ):
        with pytest.raises(InvalidConfig, match=said):
            read_authority(cert, private)


def test_a_key_is_its_owners_alone_from_its_first_moment_on(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: dict[str, int] = {}
    opened = os.open

    def noting(file: Path, flags: int, mode: int = 0o777) -> int:
        handle = opened(file, flags, mode)
        modes[Path(file).name.split(".")[1]] = stat.S_IMODE(os.fstat(handle).st_mode)
        return handle

    before = os.umask(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(issuing.os, "open", noting)
            place = kept(tmp_path / "new" / "tls", authority)
    finally:
        os.umask(before)
    assert modes == {"ca-key": 0o600, "ca-cert": 0o644}
    assert stat.S_IMODE(place.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert sorted(file.name for file in place.folder.iterdir()) == ["ca-cert.pem", "ca-key.pem"]


def test_a_key_that_is_replaced_does_not_get_the_mode_of_the_old_one(
    tmp_path: Path, authority: Authority
) -> None:
    place = kept(tmp_path, authority)
    place.key.chmod(0o666)
    place.write(authority.for_client("c", 1, NOW))
    assert stat.S_IMODE(place.key.stat().st_mode) == 0o600


def test_no_key_is_shown(authority: Authority) -> None:
    assert "PRIVATE" in authority.pair.key.decode()
    assert "PRIVATE" not in f"{authority!r} {authority.pair!r}"


def test_half_of_a_pair_is_neither_kept_nor_replaced(tmp_path: Path, authority: Authority) -> None:
    place = Place(tmp_path, "ca")
    assert not place.is_taken()
    place.write(authority.pair)
    assert place.is_taken()
    place.cert.unlink()
    with pytest.raises(
        Conflict, match=r"ca-key.pem is there without its other half; .* --overwrite makes both"
    ):
        place.is_taken()
    with pytest.raises(Conflict, match=r"ca-key.pem is there already; expected none, or --overwrite"):
        place.insist_on_room()


def test_what_is_made_is_what_a_listener_takes(tmp_path: Path, authority: Authority) -> None:
    from anew.net.certificate import Certificate, TlsFiles

    now = datetime.now(UTC)
    place, own = Place(tmp_path, "server"), kept(tmp_path, authority)
    place.write(authority.for_server(["localhost"], "Anew Server", 365, now))
    made = Certificate(TlsFiles(cert=place.cert, key=place.key, client_ca=own.cert))
    assert made.expires_at == int(issuing.ends_of(place.cert).timestamp()) * 1000
    assert made.context.verify_mode is ssl.CERT_REQUIRED
    assert issuing.names_of(place.cert) == ["localhost"]
    assert authority.has_issued(place.cert)
    assert not new_authority("Anew CA", 1, now).has_issued(place.cert)
