"""``anew lab replay``: what another policy would have made of recorded attempts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import click

from anew.cli.output import moment, now_ms, percent, show_json, show_table
from anew.cli.values import read_engine_policy
from anew.errors import NotFound
from anew.lab.replay import MAX_JOBS, Record, Replay, Shift, Tally
from anew.units import counted, format_duration, parse_duration_with_unit

_NAMES: Final = 10
"""So many types or queues are listed to whoever asked for one that there is not."""


@click.command("replay")
@click.argument("specs", metavar="POLICY...", nargs=-1, required=True)
@click.option(
    "--root-dir",
    type=click.Path(path_type=Path),
    default="./anew-data",
    metavar="DIR",
    help="Data directory of a server, running or not. [./anew-data]",
)
@click.option("--queue", multiple=True, metavar="NAME", help="Only jobs of this queue; may be repeated.")
@click.option(
    "--type", "types", multiple=True, metavar="NAME", help="Only jobs of this type; may be repeated."
)
@click.option("--since", metavar="TIME", help="Only jobs that first failed within this time, such as 7d.")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_JOBS),
    default=10_000,
    metavar="N",
    help="The latest so many jobs. [10000]",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32), default=1, metavar="N", help="For the jitter's draws. [1]"
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def replay(
    specs: tuple[str, ...],
    root_dir: Path,
    queue: tuple[str, ...],
    types: tuple[str, ...],
    since: str | None,
    limit: int,
    seed: int,
    as_json: bool,
) -> None:
    """Tell what other policies would have made of the attempts that a store has recorded.

    Every job that failed lives again from its first failure on, under each POLICY. Up to its last recorded failure a
    call would have failed too, from its recorded success on it would have succeeded, however late it came; in
    between, the other jobs of its type are asked. Where nobody can tell, the answer is a range.

    The record ends with its last failure or success. ON THEIR WAY are jobs without a success on record whose next
    call would come after that: nothing is known of it. The clock plays no part (but in --since, which counts back
    from now): as long as nothing is added to the record, the answer stays the same.

    Completed jobs are on record only if their retention keeps them (anew serve --default-completed-job-retention).
    The store is only read.

    \b
    Examples:
      anew lab replay even --root-dir /var/lib/anew
      anew lab replay zizq '{"preset": "exponential", "limit": 8}' --type webhook --since 7d
      anew lab replay even --json
    """
    from anew.app.records import recorded_failures
    from anew.lab.replay import Seen, recorded, select
    from anew.lab.replay import replay as replayed

    policies = [read_engine_policy(spec) for spec in specs]
    now = now_ms()
    start = 0 if since is None else now - parse_duration_with_unit(since, "--since")
    seen = Seen()
    histories = select(
        seen.passing(recorded_failures(root_dir)), limit, queues=queue, types=types, since=start
    )
    if len(histories) < limit:
        # The whole record has passed: what was not in it is not there.
        _check("type", types, seen.types)
        _check("queue", queue, seen.queues)
    record = recorded(histories)
    results = [replayed(policy, histories, seed=seed) for policy in policies]
    if as_json:
        show_json({"record": record, "policies": results})
        return
    _show(record, specs, results, now, all_jobs=not (types or queue or since))


def _check(noun: str, asked: tuple[str, ...], known: Counter[str]) -> None:
    """Refuse a name that no job has; where no job has failed at all, that is told anyway.

    Raises:
        NotFound: Says which there are.
    """
    missing = next((name for name in asked if known and name not in known), None)
    if missing is None:
        return
    names = [name for name, _ in known.most_common(_NAMES)]
    more = f" and {len(known) - len(names)} more" if len(known) > len(names) else ""
    where = "of type" if noun == "type" else "in queue"
    raise NotFound(f"no job {where} {missing} has failed; there are: {', '.join(names)}{more}")


def _show(record: Record, specs: tuple[str, ...], results: list[Replay], now: int, *, all_jobs: bool) -> None:
    if record.first_at is None or record.last_at is None:
        which = "job" if all_jobs else "such job"
        click.echo(f"No {which} on record has failed: there is nothing to live again.")
        return
    rows = [("as recorded", *_cells(record.tally, record.tally), "", "")]
    for spec, result in zip(specs, results, strict=True):
        rows.append(
            (
                spec if len(spec) <= 30 else spec[:27] + "...",
                *_cells(result.worst, result.best),
                _moved(result.worst_shift, result.best_shift),
                percent(result.unknown),
            )
        )
    first, end = moment(record.first_at, now), moment(record.last_at, now)
    click.echo(f"{counted(record.jobs, 'job')} that failed, the first {first}; the record ends {end}\n")
    show_table(("POLICY", "SUCCEED", "DIE", "ON THEIR WAY", "RUNS", "SUCCESS (MEDIAN)", "UNKNOWN"), rows)
    shifted = [shift for result in results for shift in (result.worst_shift, result.best_shift) if shift.jobs]
    if shifted:
        few, many = (pick(shift.jobs for shift in shifted) for pick in (min, max))
        jobs = counted(many, "job") if few == many else f"{few:,} to {counted(many, 'job')}"
        click.echo(
            f"\nSUCCESS (MEDIAN): how much earlier or later than recorded, of the {jobs} that succeeded on record "
            "and do so under the policy."
        )
    if any(result.worst.waiting or result.best.waiting for result in results):
        click.echo(
            "\nON THEIR WAY: jobs that have not succeeded on record, and whose next call would come after its end."
        )
    if any(result.unknown for result in results):
        click.echo(
            "\nRanges go from all unknown calls failing to all of them succeeding; "
            "UNKNOWN is the share of retries of which the record cannot tell."
        )


def _cells(worst: Tally, best: Tally) -> tuple[str, str, str, str]:
    def span(one: int, other: int) -> str:
        return f"{one:,}" if one == other else f"{min(one, other):,} to {max(one, other):,}"

    return (
        span(worst.succeeded, best.succeeded),
        span(worst.dead, best.dead),
        span(worst.waiting, best.waiting),
        span(worst.calls, best.calls),
    )


def _moved(worst: Shift, best: Shift) -> str:
    """Say how the middle success moves, from the smaller move to the larger: ``72 ms to 148 ms later``."""
    gains = sorted(
        {shift.median_earlier_ms for shift in (worst, best) if shift.median_earlier_ms is not None}, key=abs
    )
    if not gains:
        return "-"
    if len(gains) == 1 or gains[0] * gains[1] <= 0:
        # One end is later, or the same, and the other earlier: from worse to better.
        return " to ".join(_in_words(gain) for gain in sorted(gains))
    return f"{format_duration(abs(gains[0]))} to {_in_words(gains[1])}"


def _in_words(gain_ms: int) -> str:
    if gain_ms == 0:
        return "unchanged"
    return f"{format_duration(abs(gain_ms))} {'earlier' if gain_ms > 0 else 'later'}"
