"""The policies that the report compares, each as its JSON form; and one scheme that is no policy. Needs NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np

from anew.backoff import Policy
from anew.lab import chance, herd
from anew.lab.charts.classics import HERD
from anew.lab.envelope import Floats, Millis

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

_UPWARDS: Final[Json] = {"power": {"base": "2s", "exponent": 4, "origin": 1, "scale": "1150ms"}}
_HOUR: Final[Json] = {"curve": {"exponential": {"base": "15s"}}, "cap": "1h"}
_DOUBLING: Final[Json] = {"curve": {"exponential": {"base": "1s"}}}
_ORIGINAL: Final[dict[str, Json]] = dict(HERD)
"""The functions of the original chart, which is one of the classic pictures too."""


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to measure.

    Args:
        key: What tables and JSON call it.
        label: What people call it.
        curve: Which curve it is on, where tables put several curves side by side.
        policy: Its JSON form.
        retries: Retries that each job makes.
        window: Gaps that the load figures are taken over: the first, and the one after the last.
        phase: Where the jobs' numbers for life come from: ``seq``, ordinals in a row, or ``hash``.
        tiles: No policy: each retry instant is drawn anew inside its own tile of the nominal schedule.
    """

    key: str
    label: str
    policy: Json
    curve: str = ""
    retries: int = 25
    window: tuple[int, int] = (2, 22)
    phase: chance.PhaseKind = "seq"
    tiles: bool = False

    def built(self) -> Policy:
        """Give the policy; its limit does not matter here."""
        return Policy.from_json(self.policy)

    def blocks(self, jobs: int, seed: int) -> Iterator[Millis]:
        """Give the instants of a herd in blocks of shape (retries, jobs of the block)."""
        if self.tiles:
            yield _tiles(self.built(), jobs, self.retries, seed)
            return
        for _, block in herd.blocks(self.built(), jobs, retries=self.retries, seed=seed, phase=self.phase):
            yield block

    def instants(self, jobs: int, seed: int) -> Millis:
        """Give the instants of a whole herd, shape (retries, jobs)."""
        return np.concatenate(list(self.blocks(jobs, seed)), axis=1)


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


def _on(curve: Json, jitter: Any) -> Json:
    return {"curve": curve, "jitter": jitter}


def _scheme(key: str, label: str, policy: Json, **options: Any) -> Scheme:
    return Scheme(key=key, label=label, policy=policy, **options)


_POLYNOMIAL: Final = (
    _scheme("no_jitter", "constant, exponential: no jitter", _on(SIDEKIQ_MEAN, "none")),
    _scheme("sidekiq", "Sidekiq, a die of 30 faces", {"preset": "sidekiq"}),
    _scheme(
        "sidekiq8",
        "Sidekiq 8, a third of the jitter",
        _on({"power": {"base": "15s", "exponent": 4}}, {"grow": {"by": "10s", "step": "1s"}}),
    ),
    _scheme("zizq", "Zizq 0.6.1", {"preset": "zizq"}),
    _scheme(
        "rails",
        "Rails, up to 15 % above",
        _on({"power": {"base": "2s", "exponent": 4, "origin": 1}}, {"up_to": _UPWARDS}),
    ),
    _scheme("river", "River, ±10 %", _on({"power": {"exponent": 4, "origin": 1}}, {"around": 0.1})),
    _scheme("equal", "equal jitter", _on(SIDEKIQ_MEAN, "equal")),
    _scheme("buckets", "buckets, k³ to (k+2)³", {"preset": "buckets"}),
    _scheme("around50", "±50 %", _on(SIDEKIQ_MEAN, {"around": 0.5})),
    _scheme("full", "full jitter", _on(SIDEKIQ_MEAN, "full")),
    _scheme("tiles", "instants drawn anew in tiles", _on(SIDEKIQ_MEAN, "none"), tiles=True),
    _scheme("even_hash", "even (hash), Sidekiq's mean curve", _on(SIDEKIQ_MEAN, "even"), phase="hash"),
    _scheme("even_seq", "even (seq), Sidekiq's mean curve", _on(SIDEKIQ_MEAN, "even")),
    _scheme("even_buckets_hash", "even (hash), buckets' mean curve", _on(BUCKETS_MEAN, "even"), phase="hash"),
    _scheme("even_buckets_seq", "even (seq), buckets' mean curve", _on(BUCKETS_MEAN, "even")),
)

_FRONT: Final = tuple(
    _scheme(
        f"spread{round(w * 100)}", f"even (seq), spread {w:g}", _on(SIDEKIQ_MEAN, {"even": {"spread": w}})
    )
    for w in (0.1, 0.25, 0.48, 0.75, 0.9)
)


def _capped(key: str, label: str, jitter: Any, phase: chance.PhaseKind = "seq", **rest: Any) -> Scheme:
    # None takes a field away that all the others have.
    policy = _HOUR | {"jitter": jitter} | rest
    policy = {name: value for name, value in policy.items() if value is not None}
    return _scheme(
        f"capped_{key}", label, policy, curve="15 s to 1 h", retries=40, window=(2, 37), phase=phase
    )


_EVEN_CAPPED: Final[Json] = {"even": {"detune": 0}}

_CAPPED: Final = (
    _capped("oban", "+10 %, as Oban", {"above": 0.1}),
    _capped("around10", "±10 %", {"around": 0.1}),
    _capped("zzz_jobs", "+25 %, as zzz_jobs", {"above": {"share": 0.25, "source": "hash"}}),
    _capped("grpc", "±20 %, as gRPC", {"around": 0.2}),
    _capped("polly", "±25 %, as Polly", {"around": 0.25}),
    _capped("polly_v2", "Polly V2, clamped at the cap", "slices", cap=None, ceil="1h"),
    _capped("equal", "equal jitter", "equal"),
    _capped("cenkalti", "±50 %, as cenkalti/backoff", {"around": 0.5}),
    _capped("full", "full jitter", "full"),
    _capped(
        "decorrelated", "decorrelated", {"decorrelated": 3}, curve={"constant": "15s"}, cap=None, ceil="1h"
    ),
    _capped("even_hash", "even (hash)", _EVEN_CAPPED, "hash"),
    _capped("even_seq", "even (seq)", _EVEN_CAPPED),
)


def _doubled(key: str, label: str, jitter: Any, phase: chance.PhaseKind = "seq", **rest: Any) -> Scheme:
    policy = _DOUBLING | {"jitter": jitter} | rest
    return _scheme(f"doubling_{key}", label, policy, retries=12, window=(2, 9), phase=phase)


_UNCAPPED: Final = (
    _doubled("polly_v2", "Polly V2", "slices"),
    _doubled("full", "full jitter", "full"),
    _doubled("equal", "equal jitter", "equal"),
    # The published figure was drawn with waits held to 2**12 s: without, its rsd is about 185 %, and it moves with the luck of
    # single jobs.
    _doubled(
        "decorrelated",
        "decorrelated, clamped at 4,096 s",
        {"decorrelated": 3},
        curve={"constant": "1s"},
        ceil="4096s",
    ),
    _doubled("even_hash", "even (hash)", "even", "hash"),
    _doubled("even_seq", "even (seq)", "even"),
)


def _chart(key: str, label: str, policy: Json, phase: chance.PhaseKind = "seq") -> Scheme:
    return _scheme(f"chart_{key}", label, policy, retries=5, window=(1, 4), phase=phase)


_CHART: Final = (
    _chart("constant", "constant, 5 min", {"preset": "constant"}),
    _chart("constant_even", "even on constant", _ORIGINAL["even on constant"]),
    _chart("exponential", "exponential, 180 + 60·2ᵏ s", {"preset": "exponential"}),
    _chart("exponential_even", "even on exponential", _ORIGINAL["even on exponential"]),
    _chart("sidekiq", "Sidekiq, counted from 1", _ORIGINAL["sidekiq"]),
    _chart("sidekiq_hash", "even (hash) on Sidekiq's mean", _ORIGINAL["even on sidekiq's mean"], "hash"),
    _chart("sidekiq_even", "even on Sidekiq's mean", _ORIGINAL["even on sidekiq's mean"]),
    _chart("buckets", "buckets", {"preset": "buckets"}),
    _chart("buckets_hash", "even (hash) on buckets' mean", _on(BUCKETS_MEAN, "even"), "hash"),
    _chart("buckets_even", "even on buckets' mean", _on(BUCKETS_MEAN, "even")),
    _chart(
        "full", "full jitter, Sidekiq's mean waits", _on({"scale": {"by": 2, "curve": SIDEKIQ_MEAN}}, "full")
    ),
    _chart("full_even", "even as Anew sets it: Sidekiq's mean waits", {"preset": "even"}),
)

SCHEMES: Final[dict[str, Scheme]] = {
    scheme.key: scheme for scheme in (*_POLYNOMIAL, *_FRONT, *_CAPPED, *_UNCAPPED, *_CHART)
}
"""Every scheme by its key."""
