"""Rings of keys, and how they are kept. Numbers are the checklist's of the notification specification."""

from __future__ import annotations

import base64
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anew.errors import Conflict, InvalidConfig
from anew.topics.bodies import EndpointBody, RotationBody, SubscriptionBody
from anew.topics.keys import (
    Box,
    Key,
    load_or_make_secret,
    new_ring,
    rotated,
    signing,
)
from anew.topics.signing import is_signed, public_key, sign

NOW = 1_700_000_000_000
DAY = 86_400_000
OWN = "whsec_" + base64.b64encode(b"own" * 8).decode()


def chance(seed: int = 7) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


# -- rings


def test_without_an_overlap_the_new_key_signs_alone_at_once() -> None:
    old = new_ring("hmac", None, chance())
    new = rotated(old, OWN, 0, NOW, chance())
    assert new.keys == (Key(OWN),)


def test_a_further_rotation_leaves_the_ends_of_older_keys() -> None:
    first = new_ring("hmac", None, chance())
    second = rotated(first, None, DAY, NOW, chance(8))
    third = rotated(second, None, DAY, NOW + 3_600_000, chance(9))
    assert [key.until for key in third.keys] == [None, NOW + 3_600_000 + DAY, NOW + DAY]
    assert signing(third, NOW + DAY) == [third.current, second.current]


def test_a_rotation_keeps_the_kind_unless_another_secret_is_given() -> None:
    ring = rotated(new_ring("ed25519", None, chance()), None, DAY, NOW, chance(8))
    assert [key[:5] for key in signing(ring, NOW)] == ["whsk_", "whsk_"]
    mixed = rotated(ring, OWN, DAY, NOW, chance())
    header = sign(signing(mixed, NOW), "msg_1", 1, b"")
    for key in signing(mixed, NOW):
        assert is_signed(header, [public_key(key) or key], "msg_1", "1", b"")


@given(st.lists(st.tuples(st.integers(0, 3 * DAY), st.integers(0, 7 * DAY)), max_size=25))
def test_whatever_is_rotated_the_current_key_is_first_and_old_ones_end(steps: list[tuple[int, int]]) -> None:
    ring, now = new_ring("hmac", None, chance(0)), NOW
    for number, (wait, overlap) in enumerate(steps, 1):
        now += wait
        alive = signing(ring, now)
        try:
            ring = rotated(ring, None, overlap, now, chance(number))
        except Conflict:
            assert len(alive) == 10
            continue
        assert signing(ring, now)[0] == ring.current
        assert signing(ring, now)[1:] == (alive if overlap else alive[1:])
        assert [key.until for key in ring.keys].count(None) == 1
    assert len(signing(ring, now)) <= 10
    assert signing(ring, now + 7 * DAY) == [ring.current]


# -- encrypted


def sealed_ring() -> tuple[Box, bytes]:
    box = Box(lambda: bytes(32))
    return box, box.seal(msgspec.json.encode(new_ring("hmac", OWN, chance())), 7)


def test_a_changed_bit_anywhere_is_seen() -> None:
    box, sealed = sealed_ring()
    for place in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(InvalidConfig):
            box.open(bytes(changed), 7)


def test_what_is_cut_short_is_refused() -> None:
    box, sealed = sealed_ring()
    for length in range(len(sealed)):
        with pytest.raises(InvalidConfig):
            box.open(sealed[:length], 7)


def test_a_form_of_a_later_version_is_said_to_be_one() -> None:
    box, sealed = sealed_ring()
    with pytest.raises(InvalidConfig, match="this version of Anew does not know"):
        box.open(b"\x02" + sealed[1:], 7)


def test_a_box_loads_its_secret_when_it_is_first_needed_and_once() -> None:
    loaded: list[int] = []
    box = Box(lambda: loaded.append(1) or bytes(32))  # type: ignore[func-returns-value]
    assert loaded == []
    box.open(box.seal(b"x", 1), 1)
    assert loaded == [1]


# -- the file of the box's secret


def test_all_who_make_it_at_once_get_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads have all seen that there is none; they have one process id, as two containers may have."""
    path = tmp_path / "webhooks.key"
    together = threading.Barrier(8, timeout=30)
    exists = Path.exists

    def seen(self: Path) -> bool:
        there = exists(self)
        if self == path:
            together.wait()
        return there

    monkeypatch.setattr(Path, "exists", seen)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(load_or_make_secret(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [path.read_bytes()] * 8
    assert [*tmp_path.iterdir()] == [path]


def test_what_somebody_else_is_making_is_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the same id, in another container, comes between the file and its name."""
    path = tmp_path / "webhooks.key"
    link = os.link
    others: list[bytes] = []

    def late(made: str, name: Path) -> None:
        monkeypatch.setattr(os, "link", link)
        others.append(load_or_make_secret(path))
        link(made, name)

    monkeypatch.setattr(os, "link", late)
    assert [load_or_make_secret(path)] == others
    assert [*tmp_path.iterdir()] == [path]


def test_a_folder_that_is_not_there_is_made_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "none" / "webhooks.key"
    assert load_or_make_secret(path) == path.read_bytes()
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidConfig, match=r"webhooks\.key cannot be used: (File exists|Not a directory)"):
        load_or_make_secret(tmp_path / "file" / "webhooks.key")


def test_no_request_shows_its_secret_as_text() -> None:
    secret = "whsec_" + "c2VjcmV0" * 4
    bodies = SubscriptionBody(EndpointBody("webhook"), secret=secret), RotationBody(secret=secret)
    assert secret not in repr(bodies)
