"""The policies that docs/evenness.md compares, by table and by the label that stands there. Needs NumPy."""

from typing import Any, Final

import msgspec
import numpy as np

from anew.backoff import Policy
from anew.lab import chance, herd
from anew.lab.charts.classics import HERD
from anew.lab.vector import Floats, Millis

Json = dict[str, Any]

SIDEKIQ_MEAN: Final[Json] = {"power": {"base": "30s", "exponent": 4, "slope": "15s"}}
"""``15 + 15k + (k-1)^4`` s."""

BUCKETS_MEAN: Final[Json] = {
    "sum": [
        {"scale": {"by": 0.5, "curve": {"power": {"exponent": 3, "origin": 1}}}},
        {"scale": {"by": 0.5, "curve": {"power": {"exponent": 3, "origin": 3}}}},
    ]
}
"""``(k^3 + (k+2)^3) / 2`` s."""


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to measure.

    Args:
        policy: Its JSON form.
        retries: Retries that each job makes.
        window: Gaps that the load figures are taken over: the first, and the one after the last.
        phase: Where the jobs' numbers for life come from: ``seq``, ordinals in a row, or ``hash``.
        tiles: No policy: each retry instant is drawn anew inside its own tile of the nominal schedule.
    """

    policy: Json
    retries: int = 25
    window: tuple[int, int] = (2, 22)
    phase: chance.PhaseKind = "seq"
    tiles: bool = False

    def instants(self, jobs: int, seed: int) -> Millis:
        """Give the instants of a herd, shape (retries, jobs)."""
        policy = Policy.from_json(self.policy)
        if self.tiles:
            return _tiles(policy, jobs, self.retries, seed)
        return herd.instants(policy, jobs, retries=self.retries, seed=seed, phase=self.phase)


def _tiles(policy: Policy, jobs: int, retries: int, seed: int) -> Millis:
    """Draw instants ``C(k + U)`` with a fresh U at every retry, C being the schedule that ``even`` slides along.

    The waits between them are then not independent: each remembers the U before it, as in Polly's V2.
    """
    nominal = np.array([0.0, *(policy.nominal(retry) for retry in range(1, retries + 2))])
    start = np.concatenate(([0.0], np.cumsum((nominal[1:] + nominal[:-1]) / 2)))
    numbers = np.arange(jobs, dtype=np.uint64)
    rows: list[Floats] = []
    for retry in range(1, retries + 1):
        u = chance.numbers(seed, chance.WAIT, numbers, retry)
        rise = nominal[retry + 1] - nominal[retry]
        rows.append(start[retry] + u * nominal[retry] + u * u / 2 * rise)
    return np.array(rows).astype(np.int64)


def _on(curve: Json, jitter: Any, **rest: Any) -> Scheme:
    return Scheme(policy={"curve": curve, "jitter": jitter}, **rest)


_UPWARDS: Final[Json] = {"power": {"base": "2s", "exponent": 4, "origin": 1, "scale": "1150ms"}}
_FOURTH: Final[Json] = {"power": {"base": "15s", "exponent": 4}}

_POLYNOMIAL: Final = {
    "constant, exponential: no jitter": _on(SIDEKIQ_MEAN, "none"),
    "Sidekiq, a die of 30 faces": Scheme(policy={"preset": "sidekiq"}),
    "Sidekiq 8, a third of the jitter": _on(_FOURTH, {"grow": {"by": "10s", "step": "1s"}}),
    "Zizq 0.6.1": Scheme(policy={"preset": "zizq"}),
    "Rails, up to 15 % above": _on(
        {"power": {"base": "2s", "exponent": 4, "origin": 1}}, {"up_to": _UPWARDS}
    ),
    "River, ±10 %": _on({"power": {"exponent": 4, "origin": 1}}, {"around": 0.1}),
    "equal jitter": _on(SIDEKIQ_MEAN, "equal"),
    "buckets, k³ to (k+2)³": Scheme(policy={"preset": "buckets"}),
    "±50 %": _on(SIDEKIQ_MEAN, {"around": 0.5}),
    "full jitter": _on(SIDEKIQ_MEAN, "full"),
    "instants drawn anew in tiles": _on(SIDEKIQ_MEAN, "none", tiles=True),
    "even (hash), Sidekiq's mean curve": _on(SIDEKIQ_MEAN, "even", phase="hash"),
    "even (seq), Sidekiq's mean curve": _on(SIDEKIQ_MEAN, "even"),
    "even (hash), buckets' mean curve": _on(BUCKETS_MEAN, "even", phase="hash"),
    "even (seq), buckets' mean curve": _on(BUCKETS_MEAN, "even"),
}

_FRONT: Final = {
    f"even (seq), spread {w:g}": _on(SIDEKIQ_MEAN, {"even": {"spread": w}})
    for w in (0.1, 0.25, 0.48, 0.75, 0.9)
}


def _capped(jitter: Any, *, phase: chance.PhaseKind = "seq", **rest: Any) -> Scheme:
    policy = {"curve": {"exponential": {"base": "15s"}}, "jitter": jitter} | (rest or {"cap": "1h"})
    return Scheme(policy=policy, retries=40, window=(2, 37), phase=phase)


_EVEN_CAPPED: Final[Json] = {"even": {"detune": 0}}

_CAPPED: Final = {
    f"{label} (15 s to 1 h)": scheme
    for label, scheme in {
        "+10 %, as Oban": _capped({"above": 0.1}),
        "±10 %": _capped({"around": 0.1}),
        "+25 %, as zzz_jobs": _capped({"above": {"share": 0.25, "source": "hash"}}),
        "±20 %, as gRPC": _capped({"around": 0.2}),
        "±25 %, as Polly": _capped({"around": 0.25}),
        "Polly V2, clamped at the cap": _capped("slices", ceil="1h"),
        "equal jitter": _capped("equal"),
        "±50 %, as cenkalti/backoff": _capped({"around": 0.5}),
        "full jitter": _capped("full"),
        "decorrelated": _capped({"decorrelated": 3}, curve={"constant": "15s"}, ceil="1h"),
        "even (hash)": _capped(_EVEN_CAPPED, phase="hash"),
        "even (seq)": _capped(_EVEN_CAPPED),
    }.items()
}


def _doubled(jitter: Any, *, phase: chance.PhaseKind = "seq", **rest: Any) -> Scheme:
    policy = {"curve": {"exponential": {"base": "1s"}}, "jitter": jitter} | rest
    return Scheme(policy=policy, retries=12, window=(2, 9), phase=phase)


DOUBLED: Final = {
    "Polly V2": _doubled("slices"),
    "full jitter": _doubled("full"),
    "equal jitter": _doubled("equal"),
    # The published figure was drawn with waits held to 2**12 s: without, its rsd is about 185 %, and it moves with the luck of
    # single jobs.
    "decorrelated, clamped at 4,096 s": _doubled({"decorrelated": 3}, curve={"constant": "1s"}, ceil="4096s"),
    "even (hash)": _doubled("even", phase="hash"),
    "even (seq)": _doubled("even"),
}

_OF_THE_CHART: Final[dict[str, Json]] = dict(HERD)
"""The functions of the original chart, which is one of the classic pictures too."""


def _chart(policy: Json, phase: chance.PhaseKind = "seq") -> Scheme:
    return Scheme(policy=policy, retries=5, window=(1, 4), phase=phase)


CHART: Final = {
    "constant, 5 min": _chart({"preset": "constant"}),
    "even on constant": _chart(_OF_THE_CHART["even on constant"]),
    "exponential, 180 + 60·2ᵏ s": _chart({"preset": "exponential"}),
    "even on exponential": _chart(_OF_THE_CHART["even on exponential"]),
    "Sidekiq, counted from 1": _chart(_OF_THE_CHART["sidekiq"]),
    "even (hash) on Sidekiq's mean": _chart(_OF_THE_CHART["even on sidekiq's mean"], "hash"),
    "even on Sidekiq's mean": _chart(_OF_THE_CHART["even on sidekiq's mean"]),
    "buckets": _chart({"preset": "buckets"}),
    "even (hash) on buckets' mean": _chart({"curve": BUCKETS_MEAN, "jitter": "even"}, "hash"),
    "even on buckets' mean": _chart({"curve": BUCKETS_MEAN, "jitter": "even"}),
}

GROWING: Final = _POLYNOMIAL | _FRONT | _CAPPED
"""The rows of all tables but the two that follow."""
