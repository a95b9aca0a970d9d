"""The certificates of a server's doors: read at the start and at a signal, and watched for their end."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from anew.config import Settings
from anew.errors import InvalidConfig
from anew.net.certificate import HTTP_ALPN, Certificate, TlsFiles
from anew.units import DAY_MS

log = logging.getLogger("anew.server")

WARNED_MS: Final = 14 * DAY_MS
"""How long before a certificate's end the log begins to say so, once a day."""


def certificates_of(settings: Settings) -> dict[str, Certificate]:
    """Read the certificates of the doors that have one, by the door's name.

    Raises:
        InvalidConfig: A file cannot be used.
    """
    listen, admin, fwp = settings.listen, settings.admin, settings.fwp
    found: dict[str, Certificate] = {}
    if listen.tls_cert and listen.tls_key:
        files = TlsFiles(
            cert=listen.tls_cert, key=listen.tls_key, client_ca=listen.tls_client_ca, minimum=listen.tls_min
        )
        found["primary"] = Certificate(files, HTTP_ALPN)
    if admin.tls_cert and admin.tls_key and not admin.off:
        files = TlsFiles(
            cert=admin.tls_cert, key=admin.tls_key, minimum=listen.tls_min, prefix="--admin-tls-"
        )
        found["admin"] = Certificate(replace(files, client_ca=admin.tls_client_ca), HTTP_ALPN)
    if fwp.tls_cert and fwp.tls_key and not fwp.off:
        files = TlsFiles(cert=fwp.tls_cert, key=fwp.tls_key, minimum=listen.tls_min, prefix="--fwp-tls-")
        found["fwp"] = Certificate(replace(files, client_ca=fwp.tls_client_ca))
        if fwp.web_port is not None:  # browsers have passwords, and no certificates
            found["fwp-web"] = Certificate(files, HTTP_ALPN)
    return found


class Certificates:
    """Those of one server.

    Args:
        by_door: Certificates by the door's name.
    """

    def __init__(self, by_door: Mapping[str, Certificate]) -> None:
        self.by_door = dict(by_door)
        self._looks_at = 0  # when it is time to look for their ends again, epoch ms

    def reload(self) -> None:
        """Read all files again; what cannot be used changes nothing, and the log says so."""
        for door, certificate in self.by_door.items():
            try:
                certificate.reload()
            except InvalidConfig as error:
                log.error(
                    "a certificate cannot be read again; the one from before stays",
                    extra={"api": door, "reason": str(error)},
                )
            else:
                log.info(
                    "a certificate was read again; it counts for new connections",
                    extra={"api": door, "ends": _date(certificate.expires_at)},
                )
        self._looks_at = 0

    def look(self, now_at: int) -> None:
        """Say of each certificate that ends soon that it does, once a day.

        Args:
            now_at: Milliseconds since the epoch.
        """
        if now_at < self._looks_at:
            return
        self._looks_at = now_at + DAY_MS
        for door, certificate in self.by_door.items():
            left_ms = certificate.expires_at - now_at
            if left_ms <= WARNED_MS:
                said = "a certificate has ended" if left_ms <= 0 else "a certificate ends soon"
                log.warning(
                    f"{said}; put a new one in its place and send SIGHUP",
                    extra={
                        "api": door,
                        "cert": str(certificate.files.cert),
                        "ends": _date(certificate.expires_at),
                        "days": left_ms // DAY_MS,
                    },
                )

    def ends(self) -> dict[str, int]:
        """Give when each ends, by the door's name, milliseconds since the epoch."""
        return {door: certificate.expires_at for door, certificate in self.by_door.items()}


def _date(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
