"""How states are written in the file; see the comment on top of the first migration."""

from __future__ import annotations

from anew.jobs.state import State

STATES: tuple[State, ...] = (
    State.SCHEDULED,
    State.RETRYING,
    State.READY,
    State.IN_FLIGHT,
    State.COMPLETED,
    State.DEAD,
    State.CANCELLED,
)
CODE: dict[State, int] = {state: code for code, state in enumerate(STATES)}

SCHEDULED, RETRYING, READY, IN_FLIGHT, COMPLETED, DEAD, CANCELLED = range(7)
