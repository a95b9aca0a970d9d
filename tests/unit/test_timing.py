"""How long a wrong secret takes to be refused says nothing of how much of it was right."""

from __future__ import annotations

import hmac
import random
import time
from collections.abc import Callable
from statistics import fmean, variance
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest

from anew.fwp.password import Challenge, hashed, is_right
from anew.http.api import Api, ApiSettings
from anew.http.router import Router
from anew.net.seam import WireCounters
from anew.web.faktory import FaktoryWeb
from tests.unit.http.test_api import basic

SAMPLES = 3_000
"""Enough for what a comparison in Python that ends early would save. With a hundred thousand, where objects lie in memory is seen
as well, a few nanoseconds either way, and hides what a comparison in C might: that one is known by its name, below."""

SECRET = "0123456789abcdef" * 4
BEGINS_WRONG = "X" + SECRET[1:]
ENDS_WRONG = SECRET[:-1] + "X"
ALL_WRONG = "X" * len(SECRET)


class Door(NamedTuple):
    """How a secret is given to a door, and how it answers; what is measured is the answer alone."""

    given: Callable[[str], Any]
    ask: Callable[[Any], object]


def asking(app: Any, path: bytes, authorization: Callable[[str], str]) -> Door:
    """A request to a door of HTTP."""

    def given(secret: str) -> dict[bytes, bytes]:
        return {b"host": b"localhost", b"authorization": authorization(secret).encode()}

    return Door(given, lambda headers: app.judge(b"GET", path, headers))


def bearer() -> Door:
    """A request with a token, to the API."""
    api = Api(ApiSettings(token=SECRET), WireCounters(), Router())
    return asking(api, b"/jobs", lambda secret: f"Bearer {secret}")


def page() -> Door:
    """A page that is asked for with the token as a password."""
    api = Api(ApiSettings(token=SECRET), WireCounters(), Router())
    return asking(api, b"/ui", lambda secret: basic(f"me:{secret}"))


def web() -> Door:
    """A page of Faktory's web port."""
    router = Router()
    router.add("GET", "/stats", MagicMock())
    api = FaktoryWeb(Api(ApiSettings(), WireCounters(), router), router, SECRET)
    return asking(api, b"/stats", lambda secret: basic(f"me:{secret}"))


def hello() -> Door:
    """A HELLO's hash; one round, so that the comparison is not lost in the hashing."""
    asked = Challenge(1, "2a1b3c4d5e6f7081")
    right = hashed(SECRET, asked)

    def given(secret: str) -> str:
        return "".join(mine if a == b else "X" for a, b, mine in zip(secret, SECRET, right, strict=True))

    return Door(given, lambda given: is_right(given, SECRET, asked, 2))


@pytest.mark.parametrize("door", [bearer, page, web, hello])
def test_a_door_refuses_what_is_wrong_anywhere_and_opens_to_its_secret(door: Callable[[], Door]) -> None:
    given, ask = door()
    refused = [ask(given(secret)) for secret in (BEGINS_WRONG, ENDS_WRONG, ALL_WRONG)]
    assert all(getattr(one, "status", 401 if one is False else 0) == 401 for one in refused)
    opened = ask(given(SECRET))
    assert opened is True or getattr(opened, "status", 0) != 401


@pytest.mark.parametrize("wrong", [BEGINS_WRONG, ENDS_WRONG, ALL_WRONG, "", "short", SECRET * 2])
@pytest.mark.parametrize("door", [bearer, page, web])
def test_reliability_57_the_whole_secret_is_compared_in_constant_time_whatever_comes(
    door: Callable[[], Door], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def watching(given: Any, right: Any) -> bool:
        compared.append((given, right))
        return real(given, right)

    given, ask = door()
    monkeypatch.setattr(hmac, "compare_digest", watching)
    assert getattr(ask(given(wrong)), "status", 0) == 401
    assert compared[-1][0].endswith(wrong.encode())
    assert compared[-1][1].endswith(SECRET.encode())


@pytest.mark.parametrize("other", [ENDS_WRONG, ALL_WRONG], ids=["its end", "all of it"])
@pytest.mark.parametrize("door", [bearer, page, web, hello])
def test_reliability_57_where_a_secret_is_wrong_is_not_seen_from_how_long_it_takes(
    door: Callable[[], Door], other: str
) -> None:
    """A difference that there is would be seen each time; one that the machine makes is not."""
    assert any(abs(difference(door(), BEGINS_WRONG, other, SAMPLES)) < 4.5 for _ in range(3))


def test_the_measurement_sees_a_comparison_that_ends_early() -> None:
    """The control: characters compared one by one, as no door does it."""

    def ask(given: str) -> bool:
        return all(a == b for a, b in zip(given, SECRET, strict=True))

    early = Door(str, ask)
    assert all(difference(early, ENDS_WRONG, BEGINS_WRONG, 1_000) > 4.5 for _ in range(3))


def difference(door: Door, one: str, other: str, samples: int) -> float:
    """Welch's t of two series, taken in turns by chance; the slowest tenth is left out, as the machine's own."""
    clock, ask = time.perf_counter_ns, door.ask
    times: tuple[list[int], list[int]] = ([], [])
    turns = [0, 1] * samples
    random.Random(samples).shuffle(turns)
    # Each by itself, and before: where an object lies in memory, and what was done just now, shows too.
    all_given = [door.given((one, other)[turn]) for turn in turns]
    for turn, given in zip(turns, all_given, strict=True):
        begun = clock()
        ask(given)
        times[turn].append(clock() - begun)
    slow = sorted(times[0] + times[1])[-len(turns) // 10]
    first, second = ([spent for spent in series if spent < slow] for series in times)
    spread = variance(first) / len(first) + variance(second) / len(second) if first and second else 0
    return (fmean(first) - fmean(second)) / spread**0.5 if spread else len(second) - len(first)
