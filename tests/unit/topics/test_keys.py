"""The keys of subscriptions: which sign, how they are exchanged, and how they are kept."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from anew.errors import Conflict, InvalidConfig, InvalidInput
from anew.topics.keys import Box, Key, KeyRing, load_or_make_secret, new_ring, rotated, signing
from anew.topics.signing import check_secret, is_signed, sign

NOW = 1_700_000_000_000
HOUR = 3_600_000


def chance() -> Callable[[int], bytes]:
    """Random bytes: 0, 0, …, then 1, 1, …"""
    numbers = itertools.count()
    return lambda size: bytes([next(numbers)]) * size


def test_a_new_ring_has_one_key_without_end() -> None:
    ring = new_ring("hmac", None, chance())
    assert ring.keys == (Key("whsec_" + "A" * 43 + "="),)
    assert signing(ring, 1 << 60) == [ring.current]
    assert check_secret(new_ring("ed25519", None, chance()).current) == "ed25519"


def test_the_owner_may_bring_a_secret() -> None:
    own = "whsec_" + "QUFB" * 8
    assert new_ring("hmac", own, chance()).current == own
    with pytest.raises(InvalidInput) as refused:
        new_ring("hmac", "whsec_c2hvcnQ=", chance())
    assert refused.value.field == "/secret"
    assert "c2hvcnQ" not in str(refused.value)


def test_both_keys_sign_during_the_overlap_the_new_one_first() -> None:  # checklist 37
    random = chance()
    before = new_ring("hmac", None, random)
    ring = rotated(before, None, HOUR, NOW, random)
    assert signing(ring, NOW + HOUR - 1) == [ring.current, before.current]
    assert signing(ring, NOW + HOUR) == [ring.current]
    header = sign(signing(ring, NOW), "msg_1", 1, b"{}")
    first, second = header.split(" ")
    assert is_signed(header, [before.current], "msg_1", "1", b"{}")
    assert is_signed(first, [ring.current], "msg_1", "1", b"{}")
    assert not is_signed(second, [ring.current], "msg_1", "1", b"{}")
    late = sign(signing(ring, NOW + HOUR), "msg_1", 1, b"{}")
    assert not is_signed(late, [before.current], "msg_1", "1", b"{}")


def test_without_an_overlap_the_old_key_ends_at_once() -> None:
    random = chance()
    ring = rotated(new_ring("hmac", None, random), None, 0, NOW, random)
    assert [key.until for key in ring.keys] == [None]


def test_an_old_key_keeps_its_end_when_another_one_comes() -> None:
    random = chance()
    first = new_ring("hmac", None, random)
    second = rotated(first, None, HOUR, NOW, random)
    third = rotated(second, None, 2 * HOUR, NOW + 1, random)
    assert [key.until for key in third.keys] == [None, NOW + 1 + 2 * HOUR, NOW + HOUR]
    assert signing(third, NOW + HOUR) == [third.current, second.current]


def test_a_key_of_the_other_kind_may_follow() -> None:
    random = chance()
    ring = rotated(new_ring("ed25519", None, random), None, HOUR, NOW, random)
    assert [check_secret(key.secret) for key in ring.keys] == ["ed25519", "ed25519"]
    ring = rotated(ring, "whsec_" + "QUFB" * 8, HOUR, NOW, random)
    assert check_secret(ring.current) == "hmac"


def test_ten_keys_sign_at_most() -> None:
    random = chance()
    ring = new_ring("hmac", None, random)
    for _ in range(9):
        ring = rotated(ring, None, HOUR, NOW, random)
    assert len(signing(ring, NOW)) == 10
    with pytest.raises(Conflict, match="at most 10 keys"):
        rotated(ring, None, HOUR, NOW, random)
    assert len(signing(rotated(ring, None, HOUR, NOW + HOUR, random), NOW + HOUR)) == 2


def test_no_picture_of_keys_shows_a_secret() -> None:  # checklist 38
    ring = new_ring("hmac", None, chance())
    box = Box(lambda: b"x" * 32)
    box.seal(b"", 1)
    for shown in (repr(ring), str(ring), repr(ring.keys[0]), f"{ring.keys}", repr(box)):
        assert ring.current not in shown
        assert "x" * 8 not in shown


def test_what_is_sealed_is_read_by_its_owner_only() -> None:
    box = Box(lambda: bytes(32))
    ring = new_ring("hmac", None, chance())
    plain = msgspec.json.encode(ring)
    sealed = box.seal(plain, 7)
    assert ring.current.encode() not in sealed
    assert box.seal(plain, 7) != sealed
    assert msgspec.json.decode(box.open(sealed, 7), type=KeyRing) == ring
    for other, owner, text in [
        (box, 8, sealed),
        (Box(lambda: b"1" * 32), 7, sealed),
        (box, 7, sealed[:-1] + bytes([sealed[-1] ^ 1])),
        (box, 7, b""),
    ]:
        with pytest.raises(InvalidConfig, match=r"webhooks\.key"):
            other.open(text, owner)


def test_the_stores_secret_is_made_once_and_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "webhooks.key"
    secret = load_or_make_secret(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_make_secret(path) == secret
    assert [*tmp_path.iterdir()] == [path]


def test_a_secret_that_another_process_made_meanwhile_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "webhooks.key"
    path.write_bytes(b"1" * 32)
    monkeypatch.setattr(Path, "exists", lambda _: False)
    assert load_or_make_secret(path) == b"1" * 32
    assert [*tmp_path.iterdir()] == [path]


def test_two_processes_that_begin_together_have_one_secret(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from anew.topics.keys import load_or_make_secret\n"
        "sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.readline()\n"
        "print(load_or_make_secret(Path(sys.argv[1])).hex())"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "webhooks.key")]
    both = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = {process.communicate(timeout=60)[0].strip() for process in both}
    assert told == {(tmp_path / "webhooks.key").read_bytes().hex()}


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "webhooks.key"
    path.write_bytes(content)
    with pytest.raises(InvalidConfig, match="damaged"):
        load_or_make_secret(path)


def test_a_secret_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="cannot be used"):
        load_or_make_secret(tmp_path / "nowhere" / "webhooks.key")
