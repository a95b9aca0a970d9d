"""Promotes the standby of a PostgreSQL primary again and again, under load: nothing that was accepted may be missing afterwards.

    python -m tests.reliability.failover --promotions 100 --seed 7
    python -m tests.reliability.failover --asynchronous             the control: there is loss

Four processes work as in `pg_crash`; their addresses name both servers, always in the same order. Before each promotion the standby
may be cut off for a while, so that commits wait for it; after it the old primary may come back as it was, take writes and confirm
all of them, while everybody's connections to the new one are ended. Then it is made a standby of the new one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.standby import Pair

from .pg_crash import Run

CUT_OFF_S = 0.3
BACK_S = 1.5
"""How long the old primary is back."""

WRITTEN = "SELECT version FROM anew.turn"
END_BACKENDS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'anew'"


def promotion(pair: Pair, promoted: Counter[str]) -> Callable[[random.Random], Counter[str]]:
    """Give what promotes the standby of a pair, in one of many ways, and counts them."""

    def promote(chance: random.Random) -> Counter[str]:
        wrong: Counter[str] = Counter()
        if not pair.synchronous or chance.random() < 0.3:
            pair.cut_off_standby()
            time.sleep(CUT_OFF_S)
            promoted["cut off before"] += 1
        pair.promote(chance.choice([signal.SIGQUIT, signal.SIGINT]))
        promoted["promotions"] += 1
        if pair.synchronous and chance.random() < 0.5:
            wrong["writes on the old primary"] += writes_on_the_old(pair)
            promoted["old one back"] += 1
        pair.mend()
        return +wrong

    return promote


def writes_on_the_old(pair: Pair) -> int:
    """Have the old primary come back as one that confirms everything, and all look for a primary; count what is written there."""
    old = pair.standby
    old.start("synchronous_standby_names=")
    before = pair.ask(old, WRITTEN)
    until = time.monotonic() + BACK_S
    while time.monotonic() < until:
        pair.ask(pair.primary, END_BACKENDS)
        time.sleep(BACK_S / 5)
    return int(pair.ask(old, WRITTEN) - before)


def run(promotions: int, seed: int, folder: Path, pair: Pair) -> tuple[Run, Counter[str]]:
    """Promote so often, and judge; gives the run, with its report, and how it was done."""
    promoted: Counter[str] = Counter()
    one = Run(seed, folder, pair, blow=promotion(pair, promoted))
    one.go(promotions)
    one.report.blows = promoted
    return one, promoted


def main() -> int:
    """Run from the command line; the exit status is 1 when a rule was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--promotions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--asynchronous", action="store_true", help="commits do not wait for the standby")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="failover-") as scratch,
        closing(Pair(synchronous=not given.asynchronous)) as pair,
    ):
        one, _ = run(given.promotions, given.seed, Path(scratch), pair)
    print(one.report)
    return 0 if one.report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
