"""`python -m bench.lab`: measures the lab: its simulator, each run in a process of its own, and `explain`."""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.report import machine, markdown

_NOTHING_SUCCEEDS: Final = {"success": 0}
_OUTAGE: Final = {"outage": "2h", "success": 0.9, "over": "10m"}
_LIMITED: Final = {"outage": "10s", "capacity": 500, "timeout": "5s", "base_rate": 50, "horizon": "10m"}

LOADS: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "even": ("even", _NOTHING_SUCCEEDS),
    "zizq": ("zizq", _NOTHING_SUCCEEDS),
    "sidekiq": ("sidekiq", _NOTHING_SUCCEEDS),
    "full": ({"curve": {"exponential": {"base": "1s"}}, "cap": "1h", "jitter": "full"}, _NOTHING_SUCCEEDS),
    "decorrelated": ({"preset": "aws_decorrelated", "limit": 25}, _NOTHING_SUCCEEDS),
    "constant": ("constant", _NOTHING_SUCCEEDS),
    "outage": ("even", _OUTAGE),
    "queue": ({"curve": {"constant": "1s"}}, _LIMITED),
}
"""Name -> policy and scenario. The queue's herd is a thousandth of the others', and so is that of the exact way."""


EXPLAINED: Final[tuple[tuple[str, int], ...]] = (
    ("zizq", 25), ("even", 25), ("faktory", 25), ("sidekiq", 25), ("celery", 100), ("aws_decorrelated", 25),
)  # fmt: skip
"""Presets and their limits: dice, windows, numbers for life and chains."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a table."""
    args = _parser().parse_args(arguments)
    if args.one:
        print(json.dumps(_measured(args.one, args.jobs, exact=args.exact)))
        return 0
    runs = [(name, args.jobs // 1_000 if name == "queue" else args.jobs, False) for name in LOADS]
    runs.append(("even", max(args.jobs // 1_000, 1), True))
    rows = []
    for name, jobs, exact in runs:
        found = [_in_a_process(name, max(jobs, 1), exact) for _ in range(args.rounds)]
        seconds = statistics.median(run["seconds"] for run in found)
        calls = found[0]["calls"]
        rows.append(
            [
                f"{name}, exact" if exact else name,
                f"{jobs:,}",
                f"{calls:,}",
                f"{seconds:.2f}",
                f"{seconds / max(calls, 1) * 1e9:,.0f}",
                f"{max(run['mib'] for run in found):,.0f}",
            ]
        )
    print(machine(Path(__file__).parent))
    print(markdown(["load", "jobs", "calls", "seconds", "ns a call", "peak RSS MiB"], rows))
    told = [[name, str(limit), f"{_explained(name, limit):.1f}"] for name, limit in EXPLAINED]
    print(markdown(["explain", "retries", "ms"], told))
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.lab", description=__doc__)
    made.add_argument(
        "--jobs", type=int, default=1_000_000, metavar="N", help="jobs of each herd (1,000,000)"
    )
    made.add_argument("--rounds", type=int, default=3, metavar="N", help="take the median of N (3)")
    made.add_argument("--one", choices=LOADS, help="measure this in this process; print JSON")
    made.add_argument("--exact", action="store_true", help="with --one: by the engine's own decision")
    return made


def _in_a_process(name: str, jobs: int, exact: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.lab", "--one", name, "--jobs", str(jobs), *(["--exact"] * exact)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measured(name: str, jobs: int, *, exact: bool) -> dict[str, float]:
    from anew.backoff import Policy
    from anew.lab import Scenario, instants, simulate

    form, more = LOADS[name]
    policy, scenario = Policy.from_json(form), Scenario.from_json({"jobs": jobs, **more})
    instants(policy, 10, retries=2)  # Python's imports are not what is measured
    begun = time.perf_counter()
    outcome = simulate(policy, scenario, exact=exact)
    seconds = time.perf_counter() - begun
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    calls = outcome.calls if outcome.downstream is None else sum(outcome.downstream.offered)
    return {"seconds": seconds, "calls": calls, "mib": mib}


def _explained(name: str, limit: int) -> float:
    """Milliseconds that a policy with its window takes to be explained; the best of five."""
    from anew.backoff import Policy
    from anew.lab import explain
    from anew.lab.last_retry import last_retry

    policy = Policy.from_json({"preset": name, "limit": limit})
    took = []
    for _ in range(5):
        last_retry.cache_clear()
        begun = time.perf_counter()
        explain(policy, outages_ms=[3_600_000]).to_json()
        took.append((time.perf_counter() - begun) * 1_000)
    return min(took)


if __name__ == "__main__":
    sys.exit(main())
