"""Odd policies against a brute force that shares no code with the lab: it knows docs/policies.md, and throws its own numbers."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from anew.lab import explain

np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

POLICIES = 2_000 if os.environ.get("ANEW_NIGHTLY") else 100
JOBS, SURE = 50_000, 2_000_000
"""Jobs that are thrown at first, and where that leaves a doubt."""

CURVES: list[Any] = [
    lambda r: {"constant": r.choice([1, 40, 999, 5_000, 90_000])},
    lambda r: {
        "exponential": {"base": r.choice([1, 37, 162, 2_000]), "factor": r.choice([1.1, 1.7, 2, 2.7, 10])}
    },
    lambda r: {"linear": {"base": r.choice([0, 10, 3_000]), "step": r.choice([1, 250, 60_000])}},
    lambda r: {"power": {"base": r.choice([0, 15_000]), "exponent": r.choice([0.5, 1, 2, 4])}},
    lambda r: {
        "table": [r.choice([0, 1, 3_000, 5_000, 300_000, 90_000_000]) for _ in range(r.randint(1, 5))]
    },
]
SHARES = (0.01, 0.1, 0.5, 1)


def jitter(chance: random.Random) -> Any:
    """A jitter as docs/policies.md has them."""
    name = chance.choice(["none", "full", "equal", "around", "above", "below", "add", "decorrelated"])
    if name == "none":
        return name
    if name == "decorrelated":
        return {name: chance.choice([1.5, 3])}
    given: dict[str, Any] = {}
    if name in ("around", "above", "below"):
        given["share"] = chance.choice(SHARES)
    if name == "add":
        given["by"] = chance.choice([1, 500, 30_000])
    if chance.random() < 0.5:
        given["faces"] = chance.choice([2, 3, 7, 30, 100, 1_000])
    given["source"] = chance.choice(["rng", "hash", "job"])
    return {name: given}


def policy(chance: random.Random) -> dict[str, Any]:
    """A policy that nobody would write."""
    form: dict[str, Any] = {"curve": chance.choice(CURVES)(chance), "jitter": jitter(chance)}
    form["limit"] = chance.choice([1, 2, 3, 5, 8, 13, 25, 60, 400])
    for field, values in {"cap": [50, 20_000], "floor": [1, 700], "ceil": [1_000, 60_000]}.items():
        if chance.random() < 0.25:
            form[field] = chance.choice(values)
    if form.get("cap") == 50:
        form.pop("floor", None)  # which may not be higher
    if chance.random() < 0.5:
        form["deadline"] = chance.choice([1, 2_500, 102_968, 600_000, 7_200_000])
        form["on_deadline"] = chance.choice(["finish", "clip"])
    return form


# -- the brute force

YEAR = 365 * 86_400_000


def nominal(form: dict[str, Any], k: int) -> float:
    """The curve's wait before retry k, ms, held to the cap and to a year."""
    ((name, given),) = form["curve"].items()
    match name:
        case "constant":
            wait = float(given)
        case "exponential":
            wait = given["base"] * float(given["factor"]) ** min(k - 1, 300)  # beyond, there is no float
        case "linear":
            wait = float(given["base"] + given["step"] * (k - 1))
        case "power":
            wait = given["base"] + 1_000 * (k - 1) ** given["exponent"]
        case _:
            wait = float(given[min(k, len(given)) - 1])
    return min(wait, form.get("cap", YEAR), YEAR)


def ends(name: str, given: dict[str, Any], wait: float) -> tuple[float, float]:
    """The window of a jitter around a wait."""
    share = given.get("share", 0)
    return {
        "full": (0.0, wait),
        "equal": (wait / 2, wait),
        "around": (wait * (1 - share), wait * (1 + share)),
        "above": (wait, wait * (1 + share)),
        "below": (wait * (1 - share), wait),
        "add": (wait, wait + given.get("by", 0)),
    }[name]


def last_retries(form: dict[str, Any], jobs: int, seed: int) -> Any:
    """When the last retry of each job comes, ms after its first failure."""
    numbers = np.random.default_rng(seed)
    life, before = numbers.random(jobs), None
    name, given = form["jitter"], {}
    if isinstance(name, dict):
        ((name, given),) = name.items()
    floor, ceil, deadline = form.get("floor", 0), min(form.get("ceil", YEAR), YEAR), form.get("deadline")
    at, alive = np.zeros(jobs), np.ones(jobs, dtype=bool)
    for k in range(1, form["limit"] + 1):
        mean = nominal(form, k)
        if name == "none":
            wait = np.full(jobs, mean)
        elif name == "decorrelated":
            most = given * (
                np.full(jobs, nominal(form, 1))
                if before is None
                else np.where(before > 0, before, nominal(form, 1))
            )
            wait = np.where(most > mean, mean + numbers.random(jobs) * (most - mean), mean)
            before = np.minimum(wait, ceil)
        else:
            low, high = ends(name, given, mean)
            thrown = life if given["source"] == "job" else numbers.random(jobs)
            if "faces" in given:
                thrown = np.floor(thrown * given["faces"]) / given["faces"]
            wait = low + thrown * (high - low)
        wait = np.floor(np.clip(wait, floor, ceil))
        if deadline is not None:
            left = deadline - at
            late = wait > left
            if form["on_deadline"] == "clip":
                wait = np.minimum(wait, left)
                late &= left <= 0
            alive &= ~late
            if not alive.any():
                break
        at[alive] += wait[alive]
    return at


def test_no_share_is_off_by_more_than_is_said() -> None:
    seed = int(os.environ.get("ANEW_TEST_SEED") or random.SystemRandom().getrandbits(32))
    print(f"ANEW_TEST_SEED={seed}")
    chance, wrong = random.Random(seed), []
    for number in range(POLICIES):
        form = policy(chance)
        found = explain(form, 1).window
        if found is None:
            continue
        times = last_retries(form, JOBS, seed + number)
        # Not on a jump: whether a retry at the very instant of an outage's end comes in time is a matter of the last bit.
        outages = [int(np.quantile(times, share)) + 2 for share in (0.02, 0.3, 0.7, 0.99)]
        if any(doubtful(found, times, outage) for outage in outages):
            times = last_retries(form, SURE, seed + number + 1)
            wrong += [
                (json.dumps(form), outage, found.outlives(outage), float(np.mean(times >= outage)))
                for outage in outages
                if doubtful(found, times, outage)
            ]
    assert wrong == []


def doubtful(found: Any, times: Any, outage: int) -> bool:
    """Whether a share is off by more than its error and half a point, wherever within 4 ms the outage ends."""
    said = found.outlives(outage)
    true = (float(np.mean(times >= outage + 4)), float(np.mean(times >= outage - 4)))
    allowed = found.error + 0.005
    return bool(said < true[0] - allowed or said > true[1] + allowed)
