"""The calls of a part of the time, in bins as fine as that part allows: a wave of minutes after an outage of hours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from anew.errors import InvalidInput
from anew.lab.chance import PhaseKind, has_numpy
from anew.lab.charts.bounds import MAX_INSTANTS
from anew.lab.named import Named
from anew.lab.simulation.outcome import bin_width_ms
from anew.lab.simulation.scenario import Scenario
from anew.lab.waves import ABSENT, Wave, greatest, tally, waves
from anew.units import format_duration_short, refused


def made(found: Sequence[Wave], outage_ms: int | None) -> list[Wave]:
    """Give the waves of which each job makes only the calls up to the first one that succeeds.

    Args:
        found: A herd's waves, as if every call failed.
        outage_ms: Calls fail until then, and succeed from then on; None: they always fail.

    Returns:
        The same waves, `ABSENT` where a call is not made any more; those without any call are left out at the end.
    """
    if outage_ms is None or not found:
        return list(found)
    kept: list[Wave] = [found[0]]
    for before, wave in pairwise(found):
        now = _still(before, wave, outage_ms)
        if not len(_calls_in(now, 0, None)):
            break
        kept.append(now)
    return kept


def _still(before: Wave, wave: Wave, outage_ms: int) -> Wave:
    if isinstance(wave, list):
        return [ms if last < outage_ms else ABSENT for last, ms in zip(before, wave, strict=True)]
    import numpy as np

    # An instant that a deadline forbids is as early as can be: what follows it is forbidden as well.
    alive: Wave = np.where(np.asarray(before) < outage_ms, wave, ABSENT)
    return alive


def look(
    policies: Sequence[Named], scenario: Scenario, from_ms: int, to_ms: int | None
) -> tuple[int, list[tuple[int, ...]]]:
    """Count the calls of some herds between two instants.

    Args:
        policies: The policies, all of which end.
        scenario: Its calls do not hinder each other, and fail or succeed for certain.
        from_ms: Where to begin.
        to_ms: Where to stop, what lies there left out; None: behind the last call.

    Returns:
        The width of a bin in ms, and the calls in each bin; the last bin may reach beyond the end and is counted to there.

    Raises:
        InvalidInput: The span is none, nothing is called any more, or the scenario does not fit.
    """
    if to_ms is not None and to_ms <= from_ms:
        after = format_duration_short(from_ms)
        raise refused("to", format_duration_short(to_ms), f"later than from, which is {after}")
    if scenario.coupled or scenario.latency_ms or scenario.horizon_ms or scenario.success not in (0, 1):
        message = "from: cannot be told of calls that hinder each other or succeed by chance; expected neither from nor to"
        raise InvalidInput(message, field="from")
    herds = [_calls(named, scenario) for named in policies]
    last = max((greatest(wave) for herd in herds for wave in herd), default=0)
    if from_ms > last:
        latest = format_duration_short(max(last, 0))
        raise refused("from", format_duration_short(from_ms), f"at most {latest}, when the last call comes")
    end = last + 1 if to_ms is None else min(to_ms, last + 1)
    bin_ms = bin_width_ms(end - 1 - from_ms)
    return bin_ms, [_counts(herd, from_ms, end, bin_ms) for herd in herds]


def _calls(named: Named, scenario: Scenario) -> list[Wave]:
    """Give the calls of one herd, wave by wave: what `simulate` counts, call by call."""
    retries = named.policy.retries
    if retries is None or scenario.jobs * retries > MAX_INSTANTS:
        expected = f"no more than {MAX_INSTANTS:,} retries in all where a part of them is looked at"
        raise refused("jobs", scenario.jobs, expected)
    kind: PhaseKind = "hash" if scenario.phase == "hash" else "seq"
    found = waves(named.policy, scenario.jobs, retries, scenario.seed, kind)
    if scenario.over_ms:
        found = _later(found, scenario)
    return made(found, scenario.outage_ms if scenario.success else None)


def _later(found: Sequence[Wave], scenario: Scenario) -> list[Wave]:
    """Give waves of jobs that fail for the first time at a moment of their own."""
    # Inside, because NumPy is optional.
    if not has_numpy():
        from anew.lab.simulation.exact import arrivals

        starts = arrivals(scenario)
        return [
            [ms if ms == ABSENT else ms + start for ms, start in zip(wave, starts, strict=True)]
            for wave in found
        ]
    import numpy as np

    from anew.lab.simulation import fast

    first = fast.arrivals(scenario)
    return [np.where(np.equal(wave, ABSENT), ABSENT, wave + first) for wave in found]


def _calls_in(wave: Wave, from_ms: int, to_ms: int | None) -> Wave:
    """Give the calls of a wave from an instant on and before another."""
    if isinstance(wave, list):
        return [ms for ms in wave if from_ms <= ms and (to_ms is None or ms < to_ms)]
    inside = wave >= from_ms
    if to_ms is not None:
        inside &= wave < to_ms
    kept: Wave = wave[inside]
    return kept


def _counts(herd: Sequence[Wave], from_ms: int, end_ms: int, bin_ms: int) -> tuple[int, ...]:
    edges = range(from_ms, end_ms + bin_ms, bin_ms)
    rows = [tally(_calls_in(wave, from_ms, end_ms), edges, None, 1)[0] for wave in herd]
    return tuple(map(sum, zip(*rows, strict=True)))
