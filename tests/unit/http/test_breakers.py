"""What a question about breakers is refused for, before anybody is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from anew.engine import Op
from anew.errors import InvalidInput
from anew.http.breakers import BreakerRoutes
from anew.http.formats import MSGPACK
from anew.jobs import IdText

from .asked import Asked

TERMS: dict[str, Any] = {"failures": 0.5, "least": 1, "window_ms": 1_000, "cooldown": "even", "spacing_ms": 1}


def ask(settings: dict[str, Any]) -> list[Op]:
    """Ask; give what the engine is asked for."""
    submitted: list[Op] = []
    context: Any = SimpleNamespace(
        commit=SimpleNamespace(submit=submitted.append), engine=SimpleNamespace(ids=IdText("tag000000"))
    )
    body = msgspec.msgpack.encode({"settings": settings})
    request = Asked("POST", "/v1/breakers", body, content_type="application/msgpack")
    BreakerRoutes(context).ask(request, MSGPACK, ())
    return submitted


def test_good_terms_are_taken() -> None:
    assert len(ask({"mail": TERMS})) == 1


@pytest.mark.parametrize(
    "cooldown",
    [{(1,): 1}, msgspec.msgpack.Ext(5, b"x"), float("nan"), b"even", {"preset": "nothing"}, None],
    ids=["a list as key", "an extension", "nan", "binary", "no preset", "null"],
)
def test_a_cooldown_that_is_no_policy_is_refused(cooldown: object) -> None:
    with pytest.raises(InvalidInput):
        ask({"mail": TERMS | {"cooldown": cooldown}})


@pytest.mark.parametrize("name", ["", "a\x01", "é" * 128])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not a name; expected 1 to 255 bytes of printable text$"):
        ask({name: TERMS})
