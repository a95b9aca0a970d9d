"""``anew lab simulate``: a herd, an outage, and what comes of it under one policy."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import click

from anew.cli.lab.scenario import scenario_options
from anew.cli.output import percent, show_json, show_table
from anew.cli.values import read_engine_policy
from anew.units import MINUTE_MS, SECOND_MS, counted, format_duration, format_duration_about

if TYPE_CHECKING:
    from anew.lab.simulation.outcome import Downstream, Outcome
    from anew.lab.simulation.scenario import Scenario

_ROWS: Final = 30
"""Retries shown, unless more are asked for."""

_MINUTES: Final = 10
"""From so many on it hardly matters that the first and the last minute have calls in a part of them only."""

_SECONDS: Final = 100
"""Fewer are counted: calls at 0 s and at 7 s lie in 8 seconds of the clock, and 7 s lie between them."""

_QUIET_S: Final = 0.5
"""Work that takes no longer needs no progress line."""


@click.command("simulate")
@click.argument("spec", metavar="POLICY")
@scenario_options
@click.option("--exact", is_flag=True, help="Ask the engine's own decision about every failure; slow.")
@click.option(
    "--retries", "rows", type=click.IntRange(0), default=_ROWS, metavar="N", help=f"Show so many. [{_ROWS}]"
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def simulate_policy(spec: str, scenario: Scenario, exact: bool, rows: int, as_json: bool) -> None:
    """Let jobs fail together and see what becomes of them: when they return, what load they make, who dies.

    POLICY is JSON, the name of a preset (anew policy list), @FILE, @FILE:NAME, or - for stdin. Every job has failed
    once when the simulation begins, or within --over; then it is retried as the policy says. Until --outage is over
    every call is refused; afterwards a call succeeds with the probability --success. A peak second or minute is any
    that begins on a tenth of a second; those after the outage count the calls at or after its end alone.

    With --capacity, --workers or --base-rate calls meet in a queue: the downstream does so many a second, callers
    give up after --timeout while the work is still done, and fresh calls come beside the herd. A policy that retries
    too fast can keep such a downstream busy for nobody long after the outage.

    The same question gets the same answer; another --seed gives another herd. Without NumPy (pip install 'anew[lab]')
    at most 20,000 jobs.

    \b
    Examples:
      anew lab simulate even --jobs 10000 --outage 2h
      anew lab simulate zizq --jobs 1000000 --success 0
      anew lab simulate sidekiq --over 10m --outage 2h --success 0.9 --json
      anew lab simulate '{"curve": {"constant": "1s"}}' --jobs 500 --outage 10s \\
          --capacity 50 --timeout 5s --base-rate 5 --horizon 15m
      anew lab simulate even --jobs 500 --outage 10s --capacity 50 --timeout 5s --base-rate 5 --horizon 15m
    """
    from anew.lab.simulation.simulate import simulate

    policy = read_engine_policy(spec)
    with contextlib.closing(Progress()) as progress:
        outcome = simulate(policy, scenario, exact=exact, progress=progress)
    if as_json:
        show_json({"policy": policy.to_json(), "scenario": scenario.to_json(), "outcome": outcome})
        return
    click.echo(f"{scenario.words()}\n")
    _show_retries(outcome, rows)
    _show_load(outcome, scenario)
    for line in summary(outcome, scenario):
        click.echo(line)


class Progress:
    """A line on a terminal that says how far long work is, and goes away."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._told = -1

    def __call__(self, share: float) -> None:
        done = int(share * 100)
        if done > self._told and sys.stderr.isatty() and self._clock() - self._begun > _QUIET_S:
            self._told = done
            click.echo(f"\r{done:3d} % simulated", nl=False, err=True)

    def close(self) -> None:
        if self._told >= 0:
            click.echo("\r" + " " * 16 + "\r", nl=False, err=True)


def _show_retries(outcome: Outcome, rows: int) -> None:
    lines = [
        (
            str(line.retry),
            f"{line.calls:,}",
            f"{line.succeeded:,}",
            *(format_duration_about(ms) for ms in (line.earliest_ms, line.median_ms, line.latest_ms)),
        )
        for line in outcome.retries[:rows]
    ]
    if not lines:
        return
    show_table(("RETRY", "CALLS", "SUCCEEDED", "EARLIEST", "MEDIAN", "LATEST"), lines)
    if len(outcome.retries) > rows:
        click.echo(f"... and {len(outcome.retries) - rows:,} retries more (--retries {len(outcome.retries)})")
    click.echo()


def _show_load(outcome: Outcome, scenario: Scenario) -> None:
    """Draw the load as lines of text, and what a limited downstream did."""
    from anew.lab.charts.terminal import sparkline

    down = outcome.downstream
    rows: list[tuple[str, Sequence[int]]] = [("calls", outcome.load.counts)]
    if down is not None:
        rows += [("served", down.served), ("abandoned", down.abandoned), ("backlog", down.backlog)]
    length, width = max(len(row) for _, row in rows), max(8, *(len(name) for name, _ in rows))
    if not outcome.calls:
        return
    columns = max(20, min(shutil.get_terminal_size().columns, 120) - 26)
    blocks = "utf" in (getattr(sys.stdout, "encoding", None) or "").lower()
    for name, row in rows:
        drawn = sparkline([*row, *[0] * (length - len(row))], columns, blocks=blocks)
        click.echo(f"{name:<{width}} {drawn} at most {max(row):,}")
    bins = format_duration(outcome.load.bin_ms)
    end_ms = length * outcome.load.bin_ms
    if scenario.end_ms:
        # The last bin may reach beyond the horizon; what is counted does not.
        end_ms = min(end_ms, scenario.end_ms)
    click.echo(f"{'':<{width}} from 0 to {format_duration(end_ms)}, in bins of {bins}")
    click.echo()


def summary(outcome: Outcome, scenario: Scenario) -> list[str]:
    """Say in words what came of it.

    Returns:
        One sentence or two a line.
    """
    lines = [_ends(outcome)]
    if scenario.horizon_ms is None and scenario.end_ms is not None:
        lines.append(_looked_at(scenario))
    took = outcome.success_ms
    if took is not None:
        half, most, last = (format_duration_about(ms) for ms in (took.p50, took.p99, took.max))
        lines.append(f"From failure to success: half within {half}, 99 % within {most}, the longest {last}.")
    if outcome.calls:
        lines += [_calls(outcome), *_peaks(outcome)]
    if outcome.downstream is not None:
        lines += _downstream(outcome.downstream, scenario.end_ms)
    fresh = outcome.fresh
    if fresh is not None:
        lines.append(
            f"Of {fresh.calls:,} fresh calls {fresh.at_once:,} succeeded at once and "
            f"{fresh.succeeded - fresh.at_once:,} later; {fresh.dead:,} died, {fresh.waiting:,} still retry."
        )
    if outcome.succeeded == outcome.jobs and not outcome.wasted and not scenario.coupled:
        lines.append("Nothing stood in the way of a retry; try --outage 2h, --success 0.5 or --success 0.")
    return lines


def _ends(outcome: Outcome) -> str:
    jobs = counted(outcome.jobs, "job")
    if outcome.through_ms is None:
        return (
            f"Of {jobs} {outcome.succeeded:,} succeeded, {outcome.dead:,} died, "
            f"{outcome.waiting:,} still retry at the end."
        )
    when = format_duration_about(outcome.through_ms)
    if not outcome.dead:
        return f"Through after {when}: {jobs}, none of them dead."
    return (
        f"Of {jobs} {outcome.succeeded:,} succeeded and {outcome.dead:,} died; the last ended after {when}."
    )


def _calls(outcome: Outcome) -> str:
    share = percent(outcome.wasted, outcome.calls)
    each = f"{outcome.herd_calls / outcome.jobs:.1f} a job"
    if outcome.fresh:
        each = f"{outcome.herd_calls:,} of them the herd's, {each}"
    wasted = f"{outcome.wasted:,} of {'all' if outcome.fresh else 'them'} ({share}) wasted"
    return f"{counted(outcome.calls, 'retry', 'retries')}, {each}; {wasted}."


def _looked_at(scenario: Scenario) -> str:
    """Say where the simulation ends that would have no end by itself."""
    end = format_duration(scenario.end_ms or 0)
    if scenario.over_ms or scenario.outage_ms:
        end += " (10 min and twice the time in which things fail)"
    return f"Looked at until {end}, as fresh calls never end; --horizon for another end."


def _peaks(outcome: Outcome) -> list[str]:
    """Hold the peak second and minute against the same calls spread evenly from the first to the last."""
    first = min(line.earliest_ms for line in outcome.retries)
    last = max(line.latest_ms for line in outcome.retries)
    had, even = f"The peak second had {counted(outcome.peak_second, 'call')}", outcome.even_second
    lines = ["All of them came within a second."]
    if last - first >= SECOND_MS and even is not None:
        be = f"{_figure(even)} a second"
        if last - first >= MINUTE_MS:
            had += f", the peak minute {outcome.peak_minute:,}"
        if last - first >= _MINUTES * MINUTE_MS:
            be += f", {_figure(even * 60)} a minute"
        lines = [f"{had}; spread evenly over {_over(first, last)} it would be {be}."]
    if outcome.peak_second_after is not None:
        lines.append(_returning(outcome))
    silence = outcome.silence
    if silence is not None and silence.share:
        share = percent(silence.share)
        lines.append(f"No call came in {share} of the {silence.unit} from the first to the last.")
    return lines


def _returning(outcome: Outcome) -> str:
    """Say what meets the service when it is back."""
    if not outcome.peak_second_after:
        return "No call came after the outage."
    return (
        f"After the outage the peak second had {counted(outcome.peak_second_after, 'call')}, "
        f"the peak minute {outcome.peak_minute_after:,}; the first minute had {outcome.first_minute_after:,}."
    )


def _over(first_ms: int, last_ms: int) -> str:
    seconds = last_ms // SECOND_MS - first_ms // SECOND_MS + 1
    return f"{seconds} seconds" if seconds < _SECONDS else format_duration_about(last_ms - first_ms)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _downstream(downstream: Downstream, end_ms: int | None) -> list[str]:
    served, abandoned = sum(downstream.served), sum(downstream.abandoned)
    done = served + abandoned
    share = f" ({percent(abandoned, done)})" if done else ""
    did = "The downstream did" if end_ms is None else f"By {format_duration(end_ms)} the downstream had done"
    lines = [
        f"{did} {counted(done, 'call')}, {abandoned:,} of them{share} abandoned: their callers had given up; "
        f"at most {downstream.most_backlog:,} were in its queue."
    ]
    held = downstream.most_held
    if held:
        lines.append(
            f"At most {counted(held, 'call')} {'was' if held == 1 else 'were'} due and had no worker."
        )
    return lines
