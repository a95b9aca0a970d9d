"""Both kinds of loop, for the tests on real sockets."""

from __future__ import annotations

from typing import cast

import pytest

from .loopback import doors, loops


@pytest.fixture(params=list(loops))
def loop(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)


@pytest.fixture(params=list(doors))
def door(request: pytest.FixtureRequest) -> str:
    return cast(str, request.param)
