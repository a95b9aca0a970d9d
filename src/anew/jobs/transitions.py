"""The table of legal moves. Nothing else in the program knows which state follows which."""

from __future__ import annotations

from enum import StrEnum

from anew.errors import IllegalTransition
from anew.jobs.state import State


class Move(StrEnum):
    """What can happen to a stored job.

    PROMOTE: its time has come. HASTEN: somebody made it due now. POSTPONE: somebody gave it a later time. TAKE: a
    worker got it. COMPLETE, RETRY, DIE: how an attempt ended. RELEASE: the lease ended without a verdict (stream closed,
    server restarted). SNOOZE: its worker asked to run it later, and it has not failed. DELAY: the same of a job that has
    failed; a job has to wait because it was interrupted again and again, or a ready one that has failed was given a later
    time. CANCEL: somebody called it off. KILL: somebody put a waiting job among the dead. REDRIVE: somebody makes a dead or
    cancelled job run again.
    """

    PROMOTE = "promote"
    HASTEN = "hasten"
    POSTPONE = "postpone"
    TAKE = "take"
    COMPLETE = "complete"
    RETRY = "retry"
    DIE = "die"
    RELEASE = "release"
    SNOOZE = "snooze"
    DELAY = "delay"
    CANCEL = "cancel"
    KILL = "kill"
    REDRIVE = "redrive"


TABLE: dict[tuple[State, Move], State] = {
    (State.SCHEDULED, Move.PROMOTE): State.READY,
    (State.SCHEDULED, Move.HASTEN): State.READY,
    (State.SCHEDULED, Move.POSTPONE): State.SCHEDULED,
    (State.SCHEDULED, Move.CANCEL): State.CANCELLED,
    (State.SCHEDULED, Move.KILL): State.DEAD,
    (State.RETRYING, Move.PROMOTE): State.READY,
    (State.RETRYING, Move.HASTEN): State.READY,
    (State.RETRYING, Move.POSTPONE): State.RETRYING,
    (State.RETRYING, Move.CANCEL): State.CANCELLED,
    (State.RETRYING, Move.KILL): State.DEAD,
    (State.READY, Move.TAKE): State.IN_FLIGHT,
    (State.READY, Move.POSTPONE): State.SCHEDULED,
    (State.READY, Move.DELAY): State.RETRYING,
    (State.READY, Move.CANCEL): State.CANCELLED,
    (State.IN_FLIGHT, Move.COMPLETE): State.COMPLETED,
    (State.IN_FLIGHT, Move.RETRY): State.RETRYING,
    (State.IN_FLIGHT, Move.DIE): State.DEAD,
    (State.IN_FLIGHT, Move.RELEASE): State.READY,
    (State.IN_FLIGHT, Move.SNOOZE): State.SCHEDULED,
    (State.IN_FLIGHT, Move.DELAY): State.RETRYING,
    (State.IN_FLIGHT, Move.CANCEL): State.CANCELLED,
    (State.DEAD, Move.REDRIVE): State.READY,
    (State.CANCELLED, Move.REDRIVE): State.READY,
}


def target(state: State, move: Move) -> State:
    """Report where a move leads.

    Args:
        state: Where the job stands.
        move: What happens to it.

    Returns:
        The state after the move.

    Raises:
        IllegalTransition: The table has no such move from that state.
    """
    try:
        return TABLE[state, move]
    except KeyError:
        legal = sorted(str(known) for known, name in TABLE if name is move)
        raise IllegalTransition(
            f"cannot {move} a job in state {state}; expected {' or '.join(legal)}"
        ) from None


def sources(move: Move) -> tuple[State, ...]:
    """List the states from which a move is legal, in the order of the table."""
    return tuple(state for state, name in TABLE if name is move)


def diagram() -> str:
    """Draw the table as a Mermaid state diagram, the one that the docs show."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, move), after in TABLE.items():
        edges.setdefault((state, after), []).append(str(move))
    lines = ["stateDiagram-v2", "    [*] --> ready : enqueue", "    [*] --> scheduled : enqueue for later"]
    lines += [f"    {state} --> {after} : {', '.join(moves)}" for (state, after), moves in edges.items()]
    ends = (State.COMPLETED, State.DEAD, State.CANCELLED)
    lines += [f"    {state} --> [*] : retention over" for state in ends]
    return "\n".join(lines) + "\n"
