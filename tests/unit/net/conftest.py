"""Both kinds of loop, without and with TLS, for the tests on real sockets."""

from __future__ import annotations

from typing import cast

import pytest

from .loopback import doors


@pytest.fixture(params=doors)
def loop(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)
