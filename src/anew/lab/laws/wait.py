"""The law of one wait: what next_wait would give if it were asked for ever, calculated instead of drawn.

Windows, dice, steps and ``even`` have closed forms. What depends on the wait before has none, ``decorrelated`` and ``slices``:
`anew.lab.last_retry` draws their waits. The policy's cap, clamp and cut to whole milliseconds are in a law,
the deadline is not, for what it leaves depends on the time that has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from anew.backoff import Decorrelated, Even, Full, NoJitter, Policy, UpTo
from anew.backoff.curves import is_custom
from anew.backoff.windows import Windowed
from anew.lab.laws.shapes import Law, Mixture, Piece, Slide


def law(policy: Policy, retry: int) -> Law | None:
    """Give the law of the wait before one retry.

    Returns:
        The law; None where a custom function decides, or where the wait depends on the one before.
    """
    return _known(policy, retry, {})


def laws(policy: Policy, retries: int) -> Iterator[Law | None]:
    """Give the laws of the waits before the first retries, the policy's own limit left aside; see `law`."""
    known: dict[tuple[float, ...], Law] = {}
    for retry in range(1, retries + 1):
        yield _known(policy, retry, known)


def phase_starts(policy: Policy) -> Iterator[int]:
    """Give the first retry of each phase; of a policy without phases, the first one."""
    retry = 1
    for phase in policy.phases:
        yield retry
        if phase.count is None:
            return
        retry += phase.count
    yield retry


def asks_custom(policy: Policy, retry: int) -> bool:
    """Tell whether a user's own function takes part in a retry's wait."""
    near = (retry - 1, retry, retry + 1) if isinstance(policy.jitter, Even) else (1, retry)
    curves = [policy.place(max(1, number))[0] for number in near]
    if isinstance(policy.jitter, UpTo):
        curves.append(policy.jitter.curve)
    return any(is_custom(curve) for curve in curves)


def pieces_of(policy: Policy, retry: int) -> list[Piece] | None:
    """Give the pieces of a wait that needs one fresh number at most, clamped; None for other jitters."""
    nominal = policy.nominal(retry)
    jitter = policy.jitter
    if isinstance(jitter, Windowed):
        low, high = jitter.ends(retry, policy.place(retry)[1], nominal)
        pieces = windowed(jitter, low, high)
    elif isinstance(jitter, NoJitter):
        pieces = [Piece.atom(1.0, nominal)]
    elif isinstance(jitter, Decorrelated) and retry == 1:
        # The first one has no wait before it.
        pieces = windowed(Full(), nominal, jitter.times * nominal)
    else:
        return None
    return [held for piece in pieces for held in piece.held(policy.floor_ms, policy.highest_ms)]


def slide_of(policy: Policy, retry: int) -> tuple[float, float, float]:
    """Give a, b, c of ``a + b*p + c*p**2``, the wait of ``even`` for the phase p before dither and clamp."""
    jitter = policy.jitter
    assert isinstance(jitter, Even)
    nominal, after = policy.nominal(retry), policy.nominal(retry + 1)
    spread, start = jitter.spread, 0.5 - jitter.spread / 2
    # In x = start + spread * p: u + v*x + w*x**2, see `anew.backoff.even.slide`.
    if retry == 1:
        u, v, w = nominal / 2, nominal, (after - nominal) / 2
    else:
        fall, rise = policy.nominal(retry - 1) - nominal, after - nominal
        u, v, w = nominal + fall / 2, -fall, (fall + rise) / 2
    return u + start * (v + start * w), spread * (v + 2 * start * w), spread * spread * w


def _known(policy: Policy, retry: int, known: dict[tuple[float, ...], Law]) -> Law | None:
    """Give the law of a wait, one of those already known if it is the same: beyond a cap all are."""
    if asks_custom(policy, retry):
        return None
    jitter, pieces = policy.jitter, pieces_of(policy, retry)
    if pieces is not None:
        key = tuple(number for piece in pieces for number in piece)
        if key not in known:
            known[key] = Mixture(pieces)
        return known[key]
    if not isinstance(jitter, Even):
        return None
    a, b, c = key = slide_of(policy, retry)
    if key not in known:
        floor, ceil, dither = policy.floor_ms, policy.highest_ms, jitter.dither
        if b or c or not dither:
            known[key] = Slide(a, b, c, dither=dither, floor=floor, ceil=ceil)
        else:
            known[key] = Mixture(Piece(1.0, a * (1 - dither / 2), a * (1 + dither / 2)).held(floor, ceil))
    return known[key]


def windowed(jitter: Windowed, low: float, high: float) -> list[Piece]:
    """Give the pieces of a window with these ends, in the order of the numbers drawn, not yet clamped."""
    width = high - low
    if not width > 0:
        return [Piece.atom(1.0, low)]
    if jitter.step_ms is not None:
        faces = max(1, int(width // jitter.step_ms))
        return [Piece(1.0, low, low + faces * jitter.step_ms, faces)]
    if jitter.faces is not None:
        return [Piece(1.0, low, high, jitter.faces)]
    if jitter.cut_ms is not None:
        return _trimmed(low, width, jitter.cut_ms)
    redraw = jitter.redraw_ms
    if redraw is None or high <= redraw:
        return [Piece(1.0, low, high)]
    again = Piece((high - max(low, redraw)) / width, redraw / 2, float(redraw))
    return [Piece(1 - again.weight, low, float(redraw)), again] if low < redraw else [again]


def _trimmed(low: float, width: float, unit: int) -> list[Piece]:
    """Give the pieces of a window whose drawn part is cut down to a unit: the last one may be a rarer value."""
    faces = int(width // unit)
    rest = 1 - faces * unit / width
    pieces = [Piece(1 - rest, low, low + faces * unit, faces)] if faces else []
    return [*pieces, Piece.atom(rest, low + faces * unit)] if rest > 1e-12 else pieces
