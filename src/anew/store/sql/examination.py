"""Looks a store's rows over: what is derived of them, what belongs to nobody, whose processes have died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from anew.jobs.ids import COUNTER_BITS, IdText
from anew.store.sql.reader import ReadLink, SqlReader

FEW = 5
"""How many of very many are named."""

CLOCK_MS = 60_000

REPAIR = "anew doctor --repair"


class Finding(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        name: What was looked at; never changes.
        found: What is wrong.
        mend: What to do.
        derived: `mend` can make it anew from the rows.
        keys: The jobs concerned, where `mend` needs them.
    """

    name: str
    found: str
    mend: str
    derived: bool = False
    keys: tuple[int, ...] = ()


class Examination(NamedTuple):
    """What was found.

    Attributes:
        facts: What is so, by name, for people.
        findings: What should not be so.
    """

    facts: dict[str, str]
    findings: list[Finding]


def content(
    reading: ReadLink,
    ids: IdText,
    last_key: int,
    is_alive: Callable[[int], bool],
    facts: dict[str, str],
    now: int,
) -> Iterator[Finding]:
    """Look all rows over, inside one snapshot.

    Args:
        reading: Where they are.
        ids: How keys are shown.
        last_key: The largest key that was noted as given out.
        is_alive: Reports whether the process of a session still runs.
        facts: Gets what is so.
        now: The machine's clock, epoch ms.
    """
    yield from _derived(reading)
    yield from _of_nobody(reading)
    yield from _sessions(reading, is_alive, facts)
    yield from _damaged(reading, ids)
    ahead = (last_key >> COUNTER_BITS) - now
    if ahead > CLOCK_MS:
        yield Finding(
            "clock",
            f"the newest job was stored {ahead // 1_000} s ahead of this machine's clock",
            "Set the clock right; jobs that wait for a time wait so much longer",
        )


def _derived(reading: ReadLink) -> Iterator[Finding]:
    _, counters, queues, blocked, forgotten = SqlReader(reading).recount()
    wrong = [(queue, str(state), n) for (queue, state), n in counters.items()]
    wrong += [(queue, "blocked", n) for queue, n in blocked.items()]
    if wrong:
        few = ", ".join(f"{queue} {state} by {n:+d}" for queue, state, n in wrong[:FEW])
        yield Finding(
            "counters", f"{len(wrong)} counters are not what the rows say: {few}", REPAIR, derived=True
        )
    if queues:
        few = ", ".join(queues[:FEW])
        yield Finding(
            "heads", f"{len(queues)} queues have a wrong head of their line: {few}", REPAIR, derived=True
        )
    amiss = {*_keys(reading, "blocked_amiss"), *_keys(reading, "limited_amiss")}
    amiss.update(_keys(reading, "limited_of_nobody"))
    if amiss or forgotten:
        found = f"{len(amiss)} jobs stand otherwise with their limits' keys than the rows say, {len(forgotten)} keys are forgotten"
        yield Finding("limits", found, REPAIR, derived=True)
    keys = _keys(reading, "records_amiss")
    if keys:
        found = f"{len(keys)} jobs have another number of records than their rows say"
        yield Finding("records", found, REPAIR, derived=True, keys=keys)


def _of_nobody(reading: ReadLink) -> Iterator[Finding]:
    for name, statement, what in (
        ("payloads", "parts_of_nobody", "payloads"),
        ("attempts", "records_of_nobody", "records of failures"),
    ):
        keys = _keys(reading, statement)
        if keys:
            yield Finding(
                name, f"there are {what} of {len(keys)} jobs that are gone", REPAIR, derived=True, keys=keys
            )
    if staged := _keys(reading, "staged_by_nobody"):
        found = f"{len(staged)} payloads were begun by processes that have died"
        yield Finding("staged", found, REPAIR, derived=True)


def _sessions(reading: ReadLink, is_alive: Callable[[int], bool], facts: dict[str, str]) -> Iterator[Finding]:
    rows = reading.run("sessions").fetchall()
    alive = [pid for id_, pid, _ in rows if is_alive(id_)]
    facts["processes"] = ", ".join(map(str, alive)) or "none"
    if len(alive) < len(rows):
        found = f"{len(rows) - len(alive)} processes have died and have not been cleared away"
        yield Finding("sessions", found, f"Any start does it, or: {REPAIR}", derived=True)
    lost = reading.run("held_by_nobody", (1 << 40,)).fetchall()
    if lost:
        yield Finding(
            "holds", f"{len(lost)} jobs are held by processes that nobody knows", REPAIR, derived=True
        )


def _damaged(reading: ReadLink, ids: IdText) -> Iterator[Finding]:
    keys = _keys(reading, "damaged")
    if keys:
        few = ", ".join(map(ids.write, keys[:FEW]))
        yield Finding(
            "jobs",
            f"of {len(keys)} jobs a payload, a policy or a state cannot be read: {few}",
            "Nothing: each is set aside when it is met, and the others run",
        )


def _keys(reading: ReadLink, statement: str) -> tuple[int, ...]:
    return tuple(key for (key,) in reading.run(statement))
