"""Named policies: the functions of other systems, and our own, as data for the one JSON form.

A preset is a small function from its parameters to a policy's JSON form; the parameters' kinds are declared
beside it. Adding one is one decorated function. Values a source leaves open (a limit, mostly) stay out, so
that the server's default fills them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from anew.backoff.kinds import Duration, Flag, Integer, Kind, Number

Form = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One named policy.

    Args:
        name: What people write.
        aliases: Other names of the same law.
        summary: One line for lists.
        parameters: What may be given, and its kind.
        build: From parameters to the policy's JSON form.
    """

    name: str
    aliases: tuple[str, ...]
    summary: str
    parameters: dict[str, Kind]
    build: Callable[..., Form]


PRESETS: Final[dict[str, Preset]] = {}
"""Every preset by its name."""

ALIASES: Final[dict[str, str]] = {}
"""Every alias -> the preset's name."""

_WAIT: Final = Duration()
_COUNT: Final = Integer(1, 1_000_000)


def _preset(
    name: str, *aliases: str, **parameters: Kind
) -> Callable[[Callable[..., Form]], Callable[..., Form]]:
    def register(build: Callable[..., Form]) -> Callable[..., Form]:
        summary = (build.__doc__ or "").strip().splitlines()[0]
        PRESETS[name] = Preset(
            name=name, aliases=aliases, summary=summary, parameters=parameters, build=build
        )
        ALIASES.update(dict.fromkeys(aliases, name))
        return build

    return register


@_preset("even", spread=Number(0, 1), dither=Number(0, 1), detune=Number(0, 0.999))
def _even(**even: float) -> Form:
    """Evenly spread without dice: 15 + 15k + (k-1)^4 s, slid by the job's phase; 25 retries in 20.5 days."""
    curve = {"power": {"base": "30s", "exponent": 4, "slope": "15s"}}
    return {"curve": curve, "jitter": {"even": even} if even else "even", "limit": 25}


@_preset("zizq", base=_WAIT, exponent=Number(0), grow=_WAIT)
def _zizq(base: int = 15_000, exponent: float = 4, grow: int = 30_000) -> Form:
    """Zizq 0.6.1: 15 + k^4 s, plus up to 30k s; 25 retries in 25 days."""
    curve = {"power": {"base": base, "exponent": exponent, "origin": 1}}
    return {"curve": curve, "jitter": {"grow": grow}, "limit": 25}


def _sidekiq_form(base: int = 15_000, exponent: float = 4, grow: int = 30_000, faces: int = 30) -> Form:
    curve = {"power": {"base": base, "exponent": exponent, "origin": 0}}
    return {"curve": curve, "jitter": {"grow": {"by": grow, "faces": faces}}, "limit": 25}


@_preset("faktory", base=_WAIT, exponent=Number(0), grow=_WAIT, faces=_COUNT)
def _faktory(**given: Any) -> Form:
    """Faktory 1.10: 15 + (k-1)^4 s, plus k times a die of 30 faces; 25 retries in 20.4 days."""
    return _sidekiq_form(**given)


@_preset("sidekiq", base=_WAIT, exponent=Number(0), grow=_WAIT, faces=_COUNT)
def _sidekiq(**given: Any) -> Form:
    """Sidekiq up to 6.2.1, the law that Faktory keeps; 25 retries in 20.4 days."""
    return _sidekiq_form(**given)


@_preset("constant", "fixed", wait=_WAIT)
def _constant(wait: int = 300_000) -> Form:
    """The same wait every time, 5 minutes unless told otherwise."""
    return {"curve": {"constant": wait}}


@_preset("exponential", offset=_WAIT, base=_WAIT, factor=Number(0, 1e6, above=True))
def _exponential(offset: int = 180_000, base: int = 120_000, factor: float = 2) -> Form:
    """180 + 60 * 2^k s: an offset plus a doubling wait."""
    growing = {"exponential": {"base": base, "factor": factor}}
    return {"curve": {"sum": [{"constant": offset}, growing]} if offset else growing}


@_preset("linear", base=_WAIT, step=_WAIT)
def _linear(base: int = 15_000, step: int | None = None) -> Form:
    """15k s up to an hour: the linear strategy of zzz_jobs."""
    return {"curve": {"linear": {"base": base, "step": base if step is None else step}}, "cap": "1h"}


@_preset("buckets")
def _buckets() -> Form:
    """Anything between k^3 and (k+2)^3 s, so that neighbouring windows overlap."""
    curve = {"power": {"exponent": 3, "origin": 1}}
    return {"curve": curve, "jitter": {"up_to": {"power": {"exponent": 3, "origin": 3}}}}


@_preset("zzz_jobs", base=_WAIT, literal=Flag())
def _zzz_jobs(base: int = 15_000, literal: bool = False) -> Form:
    """15 s doubling to an hour, up to a quarter above by a hash of id and retry; 19 retries in 12 hours.

    ``literal`` starts at twice the base, as the documented steps say when read to the letter.
    """
    curve = {"exponential": {"base": base * (2 if literal else 1)}}
    return {
        "curve": curve,
        "cap": "1h",
        "jitter": {"above": {"share": 0.25, "source": "hash"}},
        "limit": 19,
        "on_exhausted": "dead",
    }


@_preset("aws_full", "full_jitter", base=_WAIT, factor=Number(0, 1e6, above=True))
def _aws_full(base: int = 1_000, factor: float = 2) -> Form:
    """Full jitter of the AWS blog: anything from nothing to 1 s doubling to 20 s."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "cap": "20s", "jitter": "full"}


@_preset("aws_equal", "equal_jitter", base=_WAIT, factor=Number(0, 1e6, above=True))
def _aws_equal(base: int = 1_000, factor: float = 2) -> Form:
    """Equal jitter of the AWS blog: the upper half of 1 s doubling to 20 s."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "cap": "20s", "jitter": "equal"}


@_preset("aws_decorrelated", "decorrelated_jitter", base=_WAIT, times=Number(1, 1_000))
def _aws_decorrelated(base: int = 1_000, times: float = 3) -> Form:
    """Decorrelated jitter of the AWS blog: from 1 s to three times the wait before, at most 20 s."""
    return {"curve": {"constant": base}, "jitter": {"decorrelated": times}, "ceil": "20s"}
