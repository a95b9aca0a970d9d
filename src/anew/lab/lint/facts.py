"""What rules look at: a policy with its schedule worked out once, and the form in which it was written."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from anew.backoff import Decorrelated, Policy, Slices
from anew.backoff.curves import CURVES, Curve, inner
from anew.backoff.fields import One, Piece, Tagged, fields_of
from anew.backoff.jitter import Reach
from anew.backoff.kinds import Duration, Kind, ListOf
from anew.backoff.policy import JITTERS
from anew.backoff.presets import find_preset
from anew.lab.last_retry import LastRetry, all_laws, is_endless, last_retry
from anew.lab.laws.shapes import Law
from anew.lab.laws.spans import Span, spans

MAX_ROWS: Final = 1_000
"""Retries that are worked out one by one."""

MAX_LAWS: Final = 100
"""Retries whose law is worked out; by then every pile that there is has begun."""

_DRAWN_LAWS: Final = 40
"""The same where waits depend on each other and have to be drawn: fewer, each with more jobs."""


class Facts:
    """A policy and what follows from it.

    Args:
        policy: The policy.
        written: The JSON value that it was read from; None if it was built in Python.
    """

    def __init__(self, policy: Policy, written: Any = None) -> None:
        self.policy = policy
        self.written = written

    @functools.cached_property
    def _spans(self) -> tuple[Span, ...]:
        return tuple(spans(self.policy, self._asked))

    @property
    def _asked(self) -> int:
        retries = self.policy.retries
        return MAX_ROWS if retries is None else min(retries, MAX_ROWS)

    @functools.cached_property
    def rows(self) -> tuple[Span, ...]:
        """The first retries; none where a user's own function decides, about which nothing can be told."""
        return () if any(row.nominal_ms is None for row in self._spans) else self._spans

    @property
    def ended_by_deadline(self) -> bool:
        """Tell whether the deadline lets no more retries happen than `rows`."""
        return len(self._spans) < self._asked

    @property
    def none_in_time(self) -> bool:
        """Tell whether the deadline lets no retry happen at all."""
        return self.ended_by_deadline and not self._spans

    @functools.cached_property
    def nominals(self) -> tuple[float, ...]:
        """The nominal waits of `rows`, not rounded."""
        return tuple(self.policy.nominal(row.retry) for row in self.rows)

    @functools.cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """How far the jitter alone would go at each of `rows`, before floor and ceil hold it."""
        return tuple(row.reach for row in self.rows if row.reach is not None)

    def hold(self, wait_ms: float) -> float:
        """Give what floor and ceil make of a wait."""
        return min(max(wait_ms, float(self.policy.floor_ms)), float(self.policy.highest_ms))

    @functools.cached_property
    def held(self) -> tuple[float, ...]:
        """What each of `rows` would wait without a jitter: `nominals`, held to floor and ceil."""
        return tuple(self.hold(nominal) for nominal in self.nominals)

    @functools.cached_property
    def laws(self) -> tuple[Law, ...]:
        """The laws of the first of `rows`: how likely each wait is, floor and ceil included."""
        most = _DRAWN_LAWS if isinstance(self.policy.jitter, Decorrelated | Slices) else MAX_LAWS
        found = all_laws(self.policy, min(len(self.rows), most))
        return tuple(law for law in found if law is not None)

    @property
    def endless(self) -> bool:
        """Tell whether nothing ever ends the retries."""
        return is_endless(self.policy)

    @functools.cached_property
    def window(self) -> LastRetry | None:
        """When the last retry comes; None if there is no last one, or if it cannot be told."""
        return last_retry(self.policy) if self.rows or self.policy.retries == 0 else None

    def rows_of(self, count: int, **changes: Any) -> tuple[Span, ...]:
        """Give the first retries of the policy with some fields changed; none if one cannot be told."""
        found = tuple(spans(dataclasses.replace(self.policy, **changes), count))
        return () if any(row.nominal_ms is None for row in found) else found

    def window_of(self, **changes: Any) -> LastRetry | None:
        """Give when the last retry of the policy comes with some fields changed."""
        return last_retry(dataclasses.replace(self.policy, **changes))

    def wrote(self, field: str) -> bool:
        """Tell whether a field stands in the policy as somebody wrote it, and was not brought along by a preset."""
        written = self.written
        if isinstance(written, str) or (isinstance(written, Mapping) and "preset" in written):
            return isinstance(written, Mapping) and field in written
        return True

    def curves(self) -> Iterator[tuple[str, Piece]]:
        """Give every plain curve with the path of its field, those that others are made of too."""
        policy = self.policy
        if policy.curve is not None:
            yield from _curves("curve", policy.curve)
        for index, phase in enumerate(policy.phases):
            yield from _curves(f"phases[{index}].curve", phase.curve)

    def durations(self) -> list[tuple[str, Any]]:
        """Give the path and the value, as written, of every duration that somebody wrote down."""
        written = self.written
        if not isinstance(written, Mapping):
            return []
        kinds: dict[str, Kind] = {name: kind for name, (_, kind) in fields_of(Policy).items()}
        kinds |= dict.fromkeys(("base_ms", "jitter_ms"), Duration())  # Zizq's form
        kinds |= find_preset(written["preset"]).parameters if written.get("preset") is not None else {}
        return [*_of_fields(kinds, written, "")]


def _curves(path: str, curve: Curve) -> Iterator[tuple[str, Piece]]:
    parts = inner(curve)
    for name, part in parts:
        yield from _curves(f"{path}.{name}", part)
    if not parts and isinstance(curve, Piece):
        yield f"{path}.{curve.name}", curve


def _of_fields(kinds: Mapping[str, Kind], values: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if name in kinds:
            yield from _durations(kinds[name], value, f"{path}.{name}" if path else name)


def _durations(kind: Kind, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    match kind:
        case Duration():
            yield path, value
        case ListOf() if isinstance(value, Sequence) and not isinstance(value, str):
            for index, given in enumerate(value):
                yield from _durations(kind.kind, given, f"{path}[{index}]")
        case One():
            yield from _in_piece(kind.piece, value, path)
        case Tagged() if isinstance(value, Mapping) and value:
            name, body = next(iter(value.items()))
            yield from _in_piece(CURVES.get(name) or JITTERS[name], body, f"{path}.{name}")


def _in_piece(piece: type[Piece], body: Any, path: str) -> Iterator[tuple[str, Any]]:
    kinds = {name: kind for name, (_, kind) in fields_of(piece).items()}
    if isinstance(body, Mapping) and set(body) <= set(kinds):
        yield from _of_fields(kinds, body, path)
    elif piece.inline is not None:
        yield from _durations(kinds[piece.inline], body, path)
