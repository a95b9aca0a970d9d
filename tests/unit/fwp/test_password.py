"""The greeting, and the vectors of the password's hash."""

import json
import re

import pytest

from anew.fwp.password import Challenge, challenge, greeting, hashed, is_right

ASKED = Challenge(4321, "2a1b3c4d5e6f7081")
ITERATED = "96e57565a5ea55ecc1894a6ff967acbeedb2d7b6f542ab00d76c063a3cc7307d"
ONCE = "13d8e0e6001827acfe6bd28d94d6666c925b1c17bf5c10a4e01a8da69e75c98d"


def test_the_greeting_of_an_open_server() -> None:
    """Checklist 1."""
    assert greeting(None) == b'+HI {"v":2}\r\n'


def test_the_greeting_with_a_password() -> None:
    """Checklist 2."""
    assert greeting(ASKED) == b'+HI {"v":2,"i":4321,"s":"2a1b3c4d5e6f7081"}\r\n'


@pytest.mark.parametrize(
    ("random", "rounds", "salt"),
    [
        (b"\0" * 10, 4000, "0"),
        (b"\xff" * 10, 8095, "7fffffffffffffff"),
        (bytes(range(10)), 4000 + 0x809, "810182028303"),
    ],
)
def test_a_challenge_is_made_of_random_bytes(random: bytes, rounds: int, salt: str) -> None:
    """Checklist 2."""
    asked = challenge(random)
    assert asked == (rounds, salt)
    shown = json.loads(greeting(asked).removeprefix(b"+HI "))
    assert 4000 <= shown["i"] <= 8095
    assert re.fullmatch("[0-9a-f]{1,16}", shown["s"])


def test_a_challenge_takes_ten_bytes() -> None:
    with pytest.raises(ValueError, match="10 bytes, not 9"):
        challenge(b"\0" * 9)


def test_the_vectors_of_the_hash() -> None:
    """Checklist 7."""
    assert hashed("anew-secret", ASKED) == ITERATED
    assert hashed("anew-secret", ASKED._replace(rounds=1)) == ONCE


@pytest.mark.parametrize(
    ("given", "version", "right"),
    [
        (ITERATED, 2, True),
        (ITERATED, 3, True),
        (ITERATED, 1, False),
        (ONCE, 0, True),
        (ONCE, 1, True),
        (ONCE, 2, False),
        ("", 2, False),
        ("é", 2, False),
    ],
)
def test_who_hashed_as_its_version_does_is_let_in(given: str, version: int, right: bool) -> None:
    """Checklist 8, 9, 10."""
    assert is_right(given, "anew-secret", ASKED, version) is right
