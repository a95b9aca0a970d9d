"""The table of legal moves, against a copy written from the states' meaning."""

from itertools import product

import pytest

from anew.errors import IllegalTransition
from anew.jobs import ENDED, WAITING, Move, State, diagram, target
from anew.jobs.transitions import sources

LEGAL = {
    "scheduled": {
        "promote": "ready",
        "hasten": "ready",
        "postpone": "scheduled",
        "cancel": "cancelled",
        "kill": "dead",
    },
    "retrying": {
        "promote": "ready",
        "hasten": "ready",
        "postpone": "retrying",
        "cancel": "cancelled",
        "kill": "dead",
    },
    "ready": {"take": "in_flight", "postpone": "scheduled", "delay": "retrying", "cancel": "cancelled"},
    "in_flight": {
        "complete": "completed",
        "retry": "retrying",
        "die": "dead",
        "release": "ready",
        "snooze": "scheduled",
        "delay": "retrying",
        "cancel": "cancelled",
    },
    "completed": {},
    "dead": {"redrive": "ready"},
    "cancelled": {"redrive": "ready"},
}
PAIRS = list(product(State, Move))


def test_the_states_and_moves_are_all_there_is() -> None:
    assert {str(state) for state in State} == set(LEGAL)
    assert {str(move) for move in Move} == {move for moves in LEGAL.values() for move in moves}


@pytest.mark.parametrize(("state", "move"), PAIRS, ids=[f"{state}-{move}" for state, move in PAIRS])
def test_each_pair_of_state_and_move_leads_where_it_must(state: State, move: Move) -> None:
    expected = LEGAL[state].get(move)
    if expected is not None:
        assert target(state, move) == expected
        return
    with pytest.raises(IllegalTransition) as caught:
        target(state, move)
    message = str(caught.value)
    assert str(move) in message
    assert f"state {state};" in message
    for other, moves in LEGAL.items():
        assert (other in message.split("expected ")[1]) == (move in moves)


def test_waiting_and_ended_states_are_named_once() -> None:
    assert {"scheduled", "retrying"} == WAITING
    assert {"completed", "dead", "cancelled"} == ENDED


def test_nothing_but_a_redrive_leaves_an_end() -> None:
    assert {move for state in ENDED for move in LEGAL[state]} == {"redrive"}
    assert "redrive" not in LEGAL["completed"]


def test_every_state_can_be_reached_and_every_job_can_end() -> None:
    reached = {"ready", "scheduled"}
    while True:
        more = reached | {after for state in reached for after in LEGAL[state].values()}
        if more == reached:
            break
        reached = more
    assert reached == set(LEGAL)
    for state in set(LEGAL) - ENDED:
        assert "in_flight" in LEGAL[state].values() or "cancelled" in LEGAL[state].values()


@pytest.mark.parametrize("move", list(Move))
def test_sources_are_the_states_that_know_the_move(move: Move) -> None:
    assert set(sources(move)) == {state for state, moves in LEGAL.items() if move in moves}
    assert len(sources(move)) == len(set(sources(move)))


def test_the_diagram_shows_each_edge_and_nothing_else() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    drawn = {tuple(line.split(" : ")[0].split(" --> ")) for line in lines[1:]}
    edges = {(f"    {state}", after) for state, moves in LEGAL.items() for after in moves.values()}
    starts = {("    [*]", "ready"), ("    [*]", "scheduled")}
    ends = {(f"    {state}", "[*]") for state in ENDED}
    assert drawn == edges | starts | ends
    assert "    ready --> in_flight : take" in lines
    assert "    scheduled --> ready : promote, hasten" in lines
