"""What leaves a batch after its commit: the answers, and the jobs that were taken."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from anew.engine.ops import Op
from anew.engine.takers import Taker
from anew.store.protocol import TakenRow

log = logging.getLogger("anew.engine")


def answer(answers: Sequence[tuple[Op, Any]]) -> None:
    """Call each operation's `done`; one that raises hurts nobody else."""
    for op, result in answers:
        try:
            op.done(result)
        except Exception:
            log.exception("an answer could not be delivered")


def deliver(deliveries: Sequence[tuple[Taker, list[TakenRow]]], now: int) -> None:
    """Hand out what was taken; a taker that raises hurts nobody else, and holds its jobs until it leaves."""
    for taker, rows in deliveries:
        try:
            taker.deliver(rows, now)
        except Exception:
            log.exception("taken jobs could not be delivered")
