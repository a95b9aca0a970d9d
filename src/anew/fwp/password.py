"""The greeting and the password that may go with it: salts, hashes, the comparison."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import NamedTuple

PROTOCOL = 2
FEWEST_ROUNDS = 4000
RANDOM_BYTES = 10
"""Random bytes that a challenge is made of."""


class Challenge(NamedTuple):
    """What a connection has to hash the password with.

    Attributes:
        rounds: How often, 4000 to 8095.
        salt: 1 to 16 hexadecimal digits.
    """

    rounds: int
    salt: str


def challenge(random: bytes) -> Challenge:
    """Make the challenge of one connection from `RANDOM_BYTES` random bytes: 63 bits of salt, 12 bits of rounds."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"a challenge is made of {RANDOM_BYTES} bytes, not {len(random)}")
    salt = int.from_bytes(random[:8], "big") >> 1
    return Challenge(FEWEST_ROUNDS + (int.from_bytes(random[8:], "big") & 0xFFF), f"{salt:x}")


def greeting(asked: Challenge | None) -> bytes:
    """Write the first line of a connection; there is no challenge where no password is set.

    There is no space in its JSON: some clients split the line at spaces.
    """
    if asked is None:
        return b'+HI {"v":%d}\r\n' % PROTOCOL
    return b'+HI {"v":%d,"i":%d,"s":"%b"}\r\n' % (PROTOCOL, asked.rounds, asked.salt.encode())


def hashed(password: str, asked: Challenge) -> str:
    """Hash a password; 0.4 µs a round."""
    digest = sha256((password + asked.salt).encode()).digest()
    for _ in range(asked.rounds - 1):
        digest = sha256(digest).digest()
    return digest.hex()


def is_right(given: str, password: str, asked: Challenge, version: int) -> bool:
    """Compare a HELLO's hash with the server's password, in a time that does not depend on the hash.

    Takes up to 4 ms.

    Args:
        given: The hash as it came; "" if none came.
        password: The server's.
        asked: What the greeting asked for.
        version: The HELLO's ``v``, 0 if there was none. Clients of the first version hash once, whatever the greeting says.
    """
    if version < PROTOCOL:
        asked = asked._replace(rounds=1)
    return hmac.compare_digest(given.encode("utf-8", "replace"), hashed(password, asked).encode())
