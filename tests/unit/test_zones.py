"""Time zones: what is found, what is refused."""

from __future__ import annotations

import time

import pytest

from anew.errors import InvalidInput
from anew.zones import offsets


def test_the_offset_of_a_zone_at_an_instant() -> None:
    berlin = offsets("Europe/Berlin")
    assert berlin(1_767_225_600) == 3_600  # 2026-01-01
    assert berlin(1_782_864_000) == 7_200  # 2026-07-01
    # The clocks change on 2026-03-29 at 01:00 UTC.
    assert (berlin(1_774_745_999), berlin(1_774_746_000)) == (3_600, 7_200)
    assert offsets("UTC")(0) == 0


def test_instants_beyond_the_calendar_have_the_offset_of_its_end() -> None:
    new_york = offsets("America/New_York")
    assert new_york(-(10**15)) == new_york(0) == -18_000
    assert new_york(10**15) == -18_000


def test_no_name_is_the_machines_own_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert offsets(None)(1_767_225_600) == 19_800
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Mars/Olympus",
        "Europe",
        "../../etc/passwd",
        "/etc/localtime",
        "UTC\x00",
        "x" * 5_000,
        "Europe/\ud800",
    ],
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    """Checklist 85 of Zizq's API."""
    with pytest.raises(InvalidInput, match=r"timezone: .* expected the IANA name of a time zone"):
        offsets(name)
