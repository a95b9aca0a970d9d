"""One connection without a socket."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anew.fwp.connection import FwpPort
from anew.net.bounded_log import EVERY_MS
from anew.net.seam import Kind, WireCounters


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'PUSH {"jid":"12345678"}', Kind.other),
        (b"PUSHB []", Kind.other),
        (b"FETCH a", Kind.settling),
        (b"ACK {}", Kind.settling),
        (b"INFO", Kind.settling),
    ],
)
def test_nothing_is_shed_for_its_age(line: bytes, kind: Kind) -> None:
    """A producer's library takes the error for a job that is lost."""
    server: Any = SimpleNamespace(now_ms=None)
    port = FwpPort(server, server, password="", enterprise=True, max_line=100)
    request: Any = SimpleNamespace(line=line)
    assert port.kind_of(request) is kind


def test_wrong_passwords_are_counted_and_logged_no_more_than_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [1]
    server: Any = SimpleNamespace(counters=WireCounters(), now_ms=lambda: now[0])
    port = FwpPort(server, server, password="x", enterprise=True, max_line=100)
    for at, peer in (
        (1, "10.0.0.1"),
        (2, "10.0.0.2"),
        (EVERY_MS, "10.0.0.3"),
        (EVERY_MS + 1, "10.0.0.4"),
    ):
        now[0] = at
        port.wrong_password(peer)
    assert [
        (record.levelname, vars(record)["peer"], vars(record)["since_the_last_line"])
        for record in caplog.records
    ] == [
        ("WARNING", "10.0.0.1", 1),
        ("WARNING", "10.0.0.4", 3),
    ]
    assert server.counters.refused == {"password": 4}
