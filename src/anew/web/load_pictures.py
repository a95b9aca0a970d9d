"""The load as the page draws it: of herds whose every retry fails, or of a scenario that was played."""

from __future__ import annotations

from typing import Any

from anew.web import loads, scenes
from anew.web.herds import Herd
from anew.web.state import UNTIL, State


def bare_load(state: State, herds: list[Herd], first: int, last: int) -> dict[str, Any]:
    """Give the load of herds whose every retry fails: all their retries."""
    log, there = state.scale == "log", [one for one in herds if one.waves]
    courses = [loads.bare_looks(one, state.values[UNTIL], log=log) for one in there]
    columns = loads.columns(courses, first, last, log=log)
    lines = [_line(one.key, one.label, columns, place) for place, one in enumerate(there)]
    return _load(columns, lines) | {"capacity": None, "outage": None}


def _load(columns: loads.Columns, lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {"edges": columns.edges_ms, "bins": columns.bins_ms, "lines": lines}


def _line(
    key: str, label: str, columns: loads.Columns, place: int, served: int | None = None
) -> dict[str, Any]:
    """Give one policy's columns; where a downstream is limited, beside those of what it serves."""
    return {
        "key": key,
        "label": label,
        "peaks": columns.peaks[place],
        "means": columns.means[place],
        "served": None if served is None else columns.peaks[served],
    }


def end_of(state: State, played: list[scenes.Scene], *, whole: bool = False) -> int:
    """Give where the picture of what was played ends, 0 where nothing was; `whole`: with its last millisecond."""
    if not played:
        return 0
    # The bins of what was played end there, and those of the picture need not begin another one.
    end = scenes.last_ms(played) - (0 if whole else 1)
    return min(end, state.values[UNTIL] or end)


def played_load(state: State, played: list[scenes.Scene], first: int) -> dict[str, Any]:
    """Give the load of the scenario."""
    last = max(end_of(state, played), 2)
    courses = [scenes.looks(one) for one in played]
    served = [scenes.looks(one, "served") for one in played if one.outcome.downstream]
    columns = loads.columns(
        [*courses, *served], min(first, max(last // 2, 1)), last, log=state.scale == "log"
    )
    behind = len(courses) if served else None
    lines = [
        _line(one.key, one.label, columns, place, None if behind is None else behind + place)
        for place, one in enumerate(played)
    ]
    values = state.values
    return _load(columns, lines) | {"capacity": values["capacity"], "outage": values["outage"]}
