"""One connection without a socket."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anew.fwp.connection import FwpPort
from anew.net.seam import Kind


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
    server: Any = SimpleNamespace()
    port = FwpPort(server, server, password="", enterprise=True, max_line=100)
    request: Any = SimpleNamespace(line=line)
    assert port.kind_of(request) is kind
