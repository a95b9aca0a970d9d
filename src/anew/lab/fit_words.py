"""What ``fit`` says of its proposal."""

from __future__ import annotations

from typing import Any

import msgspec

from anew.units import format_duration, format_duration_short, format_share


def jitter_words(jitter: Any) -> str:
    """Say which jitter was asked for in place of the family's own, in its JSON form."""
    if jitter == "none":
        return "no jitter"
    return f"jitter {jitter if isinstance(jitter, str) else msgspec.json.encode(jitter).decode()}"


def who_dies(living: float, outage_ms: int, asked: float) -> str:
    """Say which share of the jobs lives through an outage, and whether that is what was asked for."""
    outage = format_duration_short(outage_ms)
    if living >= 1:
        return f"every job outlives an outage of {outage}"
    if asked < 1 and living >= asked:
        return f"{100 * living:.3g} % of the jobs outlive an outage of {outage}"
    return (
        f"warning: {format_share(1 - living)} of the jobs die in an outage of {outage}: the jitter brings their last "
        f"retry before its end; --outlive {outage} leaves nobody behind"
    )


def how_far_off(off: int, window_ms: int) -> str:
    """Say how far a window is from the one that was asked for."""
    if off == 0:
        return "the window is exactly the one asked for"
    return (
        f"the window is {format_duration_short(window_ms + off)}, {format_duration(abs(off))} "
        f"({abs(off) / window_ms * 100:.2g} %) {'longer' if off > 0 else 'shorter'} than asked for"
    )


def spread_of(earliest: int, latest: int) -> str:
    """Say when the last retry comes, jitter included."""
    if earliest == latest:
        return f"the last retry comes {format_duration(latest)} after the first failure"
    return (
        f"with its jitter the last retry comes {format_duration(earliest)} to {format_duration(latest)} after the "
        "first failure"
    )
