"""A scenario: who fails when, for how long, and what the thing that is called can bear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final

from anew.backoff.fields import Piece, fields_of, of, read_fields
from anew.backoff.kinds import Choice, Duration, Integer, Number
from anew.errors import InvalidInput, InvalidPolicy
from anew.units import DAY_MS, MAX_DURATION_MS, MINUTE_MS, format_duration, refused

MAX_JOBS: Final = 10_000_000
"""The largest herd of one simulation."""

PAGE_JOBS: Final = 100_000
"""The largest herd that a page may ask for."""

MAX_SEED: Final = 2**53 - 1
"""The largest seed: JSON's numbers are exact up to here everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Piece):
    """What happens to a herd of jobs, checked when it is built.

    Args:
        jobs: Jobs that fail; 1 to 10 million.
        seed: All chance follows from it.
        over_ms: The first failures are spread over this, each at a moment of its own; 0: all at 0.
        outage_ms: Until then every call is refused at once; it begins at 0 and counts from there.
        success: Probability that a call made after the outage succeeds; 0: nothing ever does.
        capacity: Calls per second that the downstream can do, one after the other; None: any number.
        latency_ms: What each call takes besides.
        timeout_ms: Callers give up after this, while the work is still done; None: they wait for ever.
        workers: Calls at once at most, of all jobs together; None: any number.
        base_rate: Fresh calls per second beside the herd, evenly spaced; one that fails is retried like any job.
        phase: Where phases come from: ``seq``, ordinals in a row; ``hash``, as good as hashed ids.
        horizon_ms: Calls that would start later are not made. None: all are, or, with fresh calls (which never
            end), those until ten minutes and twice the time in which things fail (``over_ms`` and ``outage_ms``).

    Raises:
        InvalidInput: A value does not fit; names field, value and expectation.
    """

    name: ClassVar[str] = "scenario"
    jobs: int = field(default=1_000, metadata=of(Integer(1, MAX_JOBS)))
    seed: int = field(default=1, metadata=of(Integer(0, MAX_SEED)))
    over_ms: int = field(default=0, metadata=of(Duration()))
    outage_ms: int = field(default=0, metadata=of(Duration()))
    success: float = field(default=1.0, metadata=of(Number(0, 1)))
    capacity: float | None = field(default=None, metadata=of(Number(0.001, 1e6, optional=True)))
    latency_ms: int = field(default=0, metadata=of(Duration(maximum_ms=DAY_MS)))
    timeout_ms: int | None = field(default=None, metadata=of(Duration(optional=True, maximum_ms=DAY_MS)))
    workers: int | None = field(default=None, metadata=of(Integer(1, 1_000_000, optional=True)))
    base_rate: float = field(default=0.0, metadata=of(Number(0, 1e5)))
    phase: str = field(default="seq", metadata=of(Choice("seq", "hash")))
    horizon_ms: int | None = field(
        default=None, metadata=of(Duration(optional=True, maximum_ms=MAX_DURATION_MS))
    )

    def __post_init__(self) -> None:
        """Check every field by its kind, then the whole."""
        try:
            # Named, because a dataclass with slots is made anew and no longer the class that super() means.
            Piece.__post_init__(self)
        except InvalidPolicy as error:
            raise InvalidInput(str(error), field=error.field, value=error.value) from None

    def check(self) -> None:
        """Refuse a time-out of nothing."""
        if self.timeout_ms == 0:
            raise refused("timeout", 0, "a duration above 0, or null")

    @property
    def coupled(self) -> bool:
        """Whether one job's call can make another's wait or fail: the downstream or the workers are limited."""
        return self.capacity is not None or self.workers is not None or self.base_rate > 0

    @property
    def outage_end_ms(self) -> int | None:
        """When the outage ends, from where on calls succeed; None: they never do."""
        return self.outage_ms if self.success else None

    @property
    def end_ms(self) -> int | None:
        """When the simulation ends at the latest; None: when all is over."""
        if self.horizon_ms is not None or not self.base_rate:
            return self.horizon_ms
        return 10 * MINUTE_MS + 2 * (self.over_ms + self.outage_ms)

    def words(self) -> str:
        """Say on one line what differs from a thousand jobs that fail together and meet no trouble, the jobs in any case."""
        said = ["1 job" if self.jobs == 1 else f"{self.jobs:,} jobs"]
        if self.over_ms:
            said.append(f"failing over {format_duration(self.over_ms)}")
        if self.outage_ms:
            said.append(f"outage {format_duration(self.outage_ms)}")
        if self.success != 1:
            said.append(f"success {self.success:g}")
        if self.capacity is not None:
            said.append(f"capacity {self.capacity:g} a second")
        if self.latency_ms:
            said.append(f"latency {format_duration(self.latency_ms)}")
        if self.timeout_ms is not None:
            said.append(f"time-out {format_duration(self.timeout_ms)}")
        if self.workers is not None:
            said.append("1 worker" if self.workers == 1 else f"{self.workers:,} workers")
        if self.base_rate:
            said.append(f"{self.base_rate:g} fresh call{'' if self.base_rate == 1 else 's'} a second")
        if self.phase != "seq":
            said.append(f"phase {self.phase}")
        if self.seed != 1:
            said.append(f"seed {self.seed}")
        if self.end_ms is not None:
            said.append(f"until {format_duration(self.end_ms)}")
        return ", ".join(said)

    @classmethod
    def from_json(cls, value: object) -> Scenario:
        """Build a scenario from its JSON form.

        Args:
            value: An object of the fields; a duration is ``"outage": "2h"`` or ``"outage_ms": 7200000``.
                A scenario is given back as it is.

        Raises:
            InvalidInput: Something does not fit; names the field, the value and what was expected.
        """
        if isinstance(value, Scenario):
            return value
        if not isinstance(value, Mapping):
            names = ", ".join(fields_of(cls))
            raise InvalidInput(f"scenario: expected an object with fields out of: {names}", field="scenario")
        body: dict[Any, Any] = {}
        durations = {each.name for each in fields(cls) if each.name.endswith("_ms")}
        for name, given in value.items():
            short = name.removesuffix("_ms") if name in durations else name
            if short in body:
                raise InvalidInput(f"{name}: is given twice, with _ms and without", field=str(name))
            body[short] = given
        try:
            return cls(**read_fields(cls, body, ""))
        except InvalidPolicy as error:
            raise InvalidInput(str(error), field=error.field, value=error.value) from None

    def to_json(self) -> dict[str, Any]:
        """Give all fields by their names, durations in whole milliseconds; ``from_json`` reads it back."""
        return {attribute: getattr(self, attribute) for attribute, _ in fields_of(type(self)).values()}
