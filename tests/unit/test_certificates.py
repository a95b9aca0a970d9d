"""The certificates of a server's doors: which there are, and what the log says of their end."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anew.app.certificates import Certificates, certificates_of
from anew.config import load_settings
from anew.net.certificate import Certificate
from anew.units import DAY_MS
from tests.e2e.tls import pair

NOW = 1_700_000_000_000


@pytest.fixture(autouse=True)
def logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("anew"), "propagate", True)


def watched(left_ms: int) -> Certificates:
    """One certificate that ends so long after now."""
    one = SimpleNamespace(expires_at=NOW + left_ms, files=SimpleNamespace(cert=Path("server.pem")))
    return Certificates({"primary": cast(Certificate, one)})


@pytest.mark.parametrize(
    ("left_ms", "said", "days"),
    [
        (14 * DAY_MS + 1, None, None),
        (14 * DAY_MS, "a certificate ends soon", 14),
        (1, "a certificate ends soon", 0),
        (0, "a certificate has ended", 0),
        (-DAY_MS, "a certificate has ended", -1),
    ],
)
def test_from_14_days_before_its_end_a_certificate_is_in_the_log(
    left_ms: int, said: str | None, days: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    watched(left_ms).look(NOW)
    if said is None:
        assert caplog.records == []
        return
    (record,) = cast(Any, caplog.records)
    assert record.message == f"{said}; put a new one in its place and send SIGHUP"
    assert (record.api, record.cert, record.days) == ("primary", "server.pem", days)


def test_it_is_said_once_a_day(caplog: pytest.LogCaptureFixture) -> None:
    certificates = watched(3 * DAY_MS)
    for hours in range(49):
        certificates.look(NOW + hours * DAY_MS // 24)
    assert [cast(Any, record).days for record in caplog.records] == [3, 2, 1]


def test_each_door_has_its_own(tmp_path: Path) -> None:
    files = {f"{name.replace('_', '-')}": str(file) for name, file in pair(tmp_path).items()}
    fwp = {f"fwp-{name}": file for name, file in files.items()}

    def doors(flags: dict[str, Any]) -> list[str]:
        return sorted(certificates_of(load_settings(flags, {}, None).settings))

    assert doors({}) == []
    assert doors(files) == ["primary"]
    assert doors(fwp) == ["fwp"]
    assert doors(files | fwp) == ["fwp", "primary"]
    assert doors(files | fwp | {"no-fwp": True}) == ["primary"]
    assert doors(files | fwp | {"fwp-web-port": "0"}) == ["fwp", "fwp-web", "primary"]
    ends = Certificates(certificates_of(load_settings(files, {}, None).settings)).ends()
    assert ends == {"primary": 4_733_510_400_000}  # 2120-01-01
