"""Both kinds of loop, for the tests on real sockets."""

from __future__ import annotations

from typing import cast

import pytest

from tests.unit.net.loopback import loops


@pytest.fixture(params=list(loops))
def loop(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)
