"""A policy: curve, cap, jitter, clamp, limit and what follows; checked when it is built, immutable after."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

from anew.backoff.curves import A_CURVE, CURVES, Curve, Custom, CustomFailed, Exponential
from anew.backoff.even import Even
from anew.backoff.fields import One, Piece, Tagged, fields_of, of, read_fields, write_piece
from anew.backoff.form import DoubledName, expand, json_object
from anew.backoff.jitter import Jitter, NoJitter
from anew.backoff.kinds import (
    CEILING_MS,
    MAX_COUNT,
    Choice,
    Duration,
    Integer,
    ListOf,
    invalid_policy,
    invalid_size,
    missing,
)
from anew.backoff.stateful import Decorrelated, Slices
from anew.backoff.windows import Above, Add, Around, Below, Equal, Full, Grow, UpTo, Window
from anew.units import format_duration_short

DEFAULT_LIMIT: Final = 25
"""Retries where nobody says otherwise: what Zizq, Sidekiq and Faktory share."""

JITTERS: Final[dict[str, type[Piece]]] = {
    piece.name: piece
    for piece in (
        NoJitter, Full, Equal, Above, Below, Around, Add, Grow, UpTo, Window, Decorrelated, Slices, Even,
    )
}  # fmt: skip
"""Every jitter that JSON can name."""

_CURVE_OR_NONE: Final = Tagged("a curve", lambda: CURVES, besides=Custom, optional=True)
MAX_POLICY_BYTES: Final = 16_384
"""The longest JSON text of a policy that is read; a table of a thousand waits fits."""

_MAX_PHASES: Final = 32
_PROBED: Final = 200
_NO_JITTER: Final = NoJitter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(Piece):
    """So many retries on one curve; k starts again at 1 in each phase.

    Args:
        curve: The nominal waits of this phase.
        count: Retries before the next phase begins; None: this is the last one and has no end.
    """

    name: ClassVar[str] = "phase"
    curve: Curve = field(metadata=of(A_CURVE))
    count: int | None = field(default=None, metadata=of(Integer(0, MAX_COUNT, optional=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Piece):
    """When to try again, and when to stop.

    The order of evaluation is fixed: curve -> cap -> jitter -> clamp -> whole milliseconds, rounded down ->
    deadline. No wait is longer than 365 days.

    Args:
        curve: Nominal waits. Either this or ``phases``.
        phases: Several curves one after the other.
        cap_ms: Nominal waits are held to this *before* the jitter, which may pass it. None: no cap.
        jitter: How a job's wait departs from the nominal one.
        floor_ms: No wait is shorter.
        ceil_ms: No wait is longer, jitter included; waits that would be pile up here. None: no ceiling.
        limit: Retries, so ``limit + 1`` runs. 0: the first failure is final. None: no limit.
        limit_given: False: the limit is a default, which ``to_json`` does not mention.
        deadline_ms: Time since the first failure after which no retry starts. None: no deadline.
        on_deadline: ``finish`` at once when the next wait would pass it, or ``clip`` the last wait to it.
        on_exhausted: ``dead`` keeps the job, ``discard`` does not.
        override: What becomes of a wait that the failure itself asks for: ``bounded`` by floor and ceil,
            taken ``exact``, or ``spread``: bounded, after adding the job's phase times the nominal wait.
    """

    name: ClassVar[str] = "policy"
    curve: Curve | None = field(default=None, metadata=of(_CURVE_OR_NONE))
    phases: tuple[Phase, ...] = field(default=(), metadata=of(ListOf(One(Phase), 0, _MAX_PHASES)))
    cap_ms: int | None = field(default=None, metadata=of(Duration(optional=True)))
    jitter: Jitter = field(default=_NO_JITTER, metadata=of(Tagged("a jitter", lambda: JITTERS)))
    floor_ms: int = field(default=0, metadata=of(Duration()))
    ceil_ms: int | None = field(default=None, metadata=of(Duration(optional=True)))
    limit: int | None = field(default=DEFAULT_LIMIT, metadata=of(Integer(0, MAX_COUNT, optional=True)))
    deadline_ms: int | None = field(default=None, metadata=of(Duration(optional=True)))
    on_deadline: str = field(default="finish", metadata=of(Choice("finish", "clip")))
    on_exhausted: str = field(default="dead", metadata=of(Choice("dead", "discard")))
    override: str = field(default="bounded", metadata=of(Choice("bounded", "exact", "spread")))
    limit_given: bool = field(default=True)
    # Derived once, because a wait is decided often.
    effective_cap_ms: int | None = field(init=False, repr=False, compare=False, default=None)
    highest_ms: int = field(init=False, repr=False, compare=False, default=CEILING_MS)
    retries: int | None = field(init=False, repr=False, compare=False, default=None)

    def check(self) -> None:
        """Refuse pieces that contradict each other, then derive what every wait needs."""
        self._check_phases()
        self._check_clamp()
        self._check_jitter()
        set_ = object.__setattr__
        set_(self, "effective_cap_ms", None if self.cap_ms is None else self.jitter.tuned_cap(self.cap_ms))
        set_(self, "highest_ms", CEILING_MS if self.ceil_ms is None else self.ceil_ms)
        set_(self, "retries", self._count_retries())
        if isinstance(self.jitter, UpTo):
            self._probe(self.jitter)

    def _check_phases(self) -> None:
        if (self.curve is None) == (not self.phases):
            if self.phases:
                raise invalid_size(
                    "phases", "a list of phases beside curve", "either curve or phases, not both"
                )
            raise missing("curve", "either curve or phases")
        for index, phase in enumerate(self.phases[:-1]):
            if phase.count is None:
                raise missing(f"phases[{index}].count", "a count, as only the last phase may be endless")

    def _check_clamp(self) -> None:
        for name, upper in (("ceil", self.ceil_ms), ("cap", self.cap_ms)):
            if upper is not None and self.floor_ms > upper:
                floor = format_duration_short(self.floor_ms)
                raise invalid_policy(name, format_duration_short(upper), f"at least floor, which is {floor}")

    def _check_jitter(self) -> None:
        if not isinstance(self.jitter, Slices):
            return
        curve = self.curve
        if not isinstance(curve, Exponential) or curve.factor != 2 or curve.knee is not None:
            raise invalid_policy(
                "jitter", "slices", "slices only on an exponential curve with factor 2 and no knee"
            )

    def _probe(self, jitter: UpTo) -> None:
        for retry in range(1, _PROBED + 1):
            try:
                low, high = jitter.bounds(self.place(retry)[1], self.nominal(retry))
            except CustomFailed:
                return
            if low > high:
                expected = f"a curve that is never below the policy's own (at retry {retry} it is)"
                raise invalid_policy("jitter.up_to", A_CURVE.write(jitter.curve), expected)

    def _count_retries(self) -> int | None:
        counts = [phase.count for phase in self.phases]
        total = None if None in counts or not counts else sum(count for count in counts if count is not None)
        return min((n for n in (total, self.limit) if n is not None), default=None)

    def place(self, retry: int) -> tuple[Curve, int]:
        """Give the curve of a retry and the retry's number k on it. The last phase's curve goes on."""
        if self.curve is not None:
            return self.curve, retry
        k = retry
        for phase in self.phases:
            if phase.count is None or k <= phase.count or phase is self.phases[-1]:
                return phase.curve, k
            k -= phase.count
        raise AssertionError(self.phases)

    def nominal(self, retry: int) -> float:
        """Give the nominal wait before a retry: the curve, held to the cap and to 365 days.

        Args:
            retry: 1 = the first.

        Returns:
            Milliseconds, finite, >= 0, not rounded.

        Raises:
            CustomFailed: A user's own function gave no usable value.
        """
        if self.curve is not None:
            wait = self.curve.at(retry)
        else:
            curve, k = self.place(retry)
            wait = curve.at(k)
        cap = CEILING_MS if self.effective_cap_ms is None else self.effective_cap_ms
        return wait if wait < cap else float(cap)

    @property
    def changes_requests(self) -> bool:
        """Whether a wait that the failure itself asks for can come out as another one."""
        if self.deadline_ms is not None or self.override == "spread":
            return True
        return self.override == "bounded" and (self.floor_ms > 0 or self.ceil_ms is not None)

    def with_limit(self, limit: int | None) -> Policy:
        """Give the same policy with another limit.

        Args:
            limit: Retries; None: unlimited (or as many as the phases have).
        """
        # All fields are checked already: copying them one by one costs a tenth of building anew.
        changed = object.__new__(Policy)
        set_ = object.__setattr__
        for name in self.__slots__:
            set_(changed, name, getattr(self, name))
        set_(changed, "limit", _LIMIT.read(limit, "limit"))
        set_(changed, "limit_given", True)
        set_(changed, "retries", changed._count_retries())
        return changed

    @classmethod
    def from_json(cls, value: object, *, default_limit: int | None = DEFAULT_LIMIT) -> Policy:
        """Build a policy from its JSON form.

        Args:
            value: The decoded JSON: the full form, ``{"preset": "faktory", "limit": 6}``, a preset's bare
                name, or Zizq's ``{"base_ms": ..., "exponent": ..., "jitter_ms": ...}``. A policy is given
                back as it is.
            default_limit: The limit of a policy that names none.

        Raises:
            InvalidPolicy: Something does not fit; names the field's path, the value and what was expected.
        """
        if isinstance(value, Policy):
            return value
        body = dict(expand(value))
        given = "limit" in body
        values = read_fields(cls, {"limit": default_limit} | body, "")
        return cls(**values, limit_given=given)

    def to_json(self) -> dict[str, Any]:
        """Give the canonical JSON form; ``from_json`` reads an equal policy back.

        Fields at their defaults are left out. A limit appears if it was given. A user's own function is
        named only and cannot be read back.
        """
        body: dict[str, Any] = write_piece(self)
        body.pop("limit", None)
        return body | ({"limit": self.limit} if self.limit_given else {})

    def to_bytes(self) -> bytes:
        """Give the canonical JSON text, the same for equal policies."""
        return msgspec.json.encode(self.to_json(), order="sorted")


_LIMIT: Final = fields_of(Policy)["limit"][1]


@functools.lru_cache(maxsize=1_024)
def policy_from_json(text: bytes, *, default_limit: int | None = DEFAULT_LIMIT) -> Policy:
    """Build a policy from JSON text; the last 1,024 are remembered, so a stored policy costs a look-up.

    Raises:
        InvalidPolicy: It is no JSON, is too long, or does not fit.
    """
    if len(text) > MAX_POLICY_BYTES:
        raise invalid_size(
            "policy", f"a text of {len(text)} bytes", f"at most {MAX_POLICY_BYTES} bytes of JSON"
        )
    try:
        msgspec.json.decode(text)  # stricter than the standard library, which alone tells doubled names
        value = json.loads(text, object_pairs_hook=json_object)
    except DoubledName:
        raise
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise invalid_policy("policy", text, f"JSON ({error})") from None
    return Policy.from_json(value, default_limit=default_limit)


def preset(name: str, **parameters: Any) -> Policy:
    """Build a preset.

    Args:
        name: Its name or one of its aliases; ``PRESETS`` lists them.
        parameters: The preset's own parameters, and any field of a policy (``limit=6``, ``cap="1h"``).

    Raises:
        InvalidPolicy: No such preset or parameter, or a value that does not fit.
    """
    return Policy.from_json({"preset": name, **parameters})
