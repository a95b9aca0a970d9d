"""Hands ready jobs to takers, fairly and without looking at takers that have nothing to gain.

A taker is *idle* while it has a free slot and its queues may hold ready jobs; it is *waiting* once they were found empty; it is
neither while it has no free slot or its peer is behind. The rule that everything here keeps: after each batch no waiting taker has
a ready job in one of its queues, so a ready job and a free slot never both wait (unless the global limit holds them, or the batch
has taken `BATCH_BYTES`: then the taker is still idle, and the next batch comes at once).

Takers that name the same queues form a group: one take serves them together, and to let one of them wait or to wake it costs the
same however many queues it names and however many takers there are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice

from anew.engine.lease_time import LeaseTime
from anew.jobs import HoldKind
from anew.jobs.terms import policy_readable
from anew.store.protocol import Hold, Store, Taken, TakenRow

TURN_JOBS = 250
"""Most jobs a group gets before the next one has its turn."""

TURN_BYTES = 1 << 20
"""Most payload bytes a group gets in one turn, once it has one job."""

BATCH_BYTES = 4 << 20
"""Bytes of long payloads that one batch takes, but for its last turn; the next batch goes on, if its takers' peers keep up."""

SMALL_JOBS = 10
"""Up to so many jobs of one queue are taken together with those of other queues, by statements for all of them."""

SMALL_TURNS = 500
"""Most turns that are served together."""

TURNED_AWAY = 500
"""Jobs that one batch takes from the line though nobody may get them, as they have expired or their key is full, but for its last
turn: some milliseconds' work. The next batch goes on."""

CHECKED_JOBS = 1_024
"""Held jobs that one batch compares with their rows after another process has written: 0.4 ms, and all where the limit of jobs in
flight is the usual one."""

CHECK_MS = 50
"""How often at most that is done: beside a process that writes without a pause each batch would compare them all again."""

_NO_LIMIT = sys.maxsize
_numbers = count(1)

Undo = list[tuple[int, "Taker", int]]
"""Settled jobs with their holders and tokens, to be put back if the transaction does not last."""

Admit = Callable[[Sequence[int]], set[int]]

Deliveries = list[tuple["Taker", list[TakenRow]]]


class Taker:
    """Somebody who takes jobs as they become ready and settles them one by one or in bulk.

    Args:
        queues: The queues it takes from; None takes from all.
        prefetch: Most jobs it may hold unsettled, >= 1.
        deliver: Called after the commit with the jobs taken for it and the instant of the take.
        broken: Called when `deliver` has raised: it gets no more jobs, and what it holds is to be given back.
        interruption_limit: How often in a row a job that it holds may lose its worker; None: as often as the engine's defaults say.
        name: What its worker calls itself, for the records of attempts.
    """

    __slots__ = (
        "broken",
        "deliver",
        "group",
        "held",
        "interruption_limit",
        "name",
        "number",
        "paused",
        "prefetch",
        "queues",
    )
    group: Group

    def __init__(
        self,
        queues: Sequence[str] | None,
        prefetch: int,
        deliver: Callable[[list[TakenRow], int], None],
        broken: Callable[[], None] = lambda: None,
        *,
        interruption_limit: int | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.number = next(_numbers)
        self.queues = None if queues is None else tuple(dict.fromkeys(queues))
        self.prefetch = prefetch
        self.deliver = deliver
        self.broken = broken
        self.interruption_limit = interruption_limit
        self.held: dict[int, int] = {}  # key -> the token under which it was taken
        self.paused = False

    def free_slots(self) -> int:
        """Report how many more jobs it may be given now."""
        return 0 if self.paused else self.prefetch - len(self.held)


class Group:
    """All takers of the same queues.

    Args:
        queues: The queues they take from; None for all.

    Attributes:
        takers: How many there are.
        idle: Those that may take, in the order of their turns.
        waiting: Those that have found nothing to take, the one that has waited longest first.
        unlisted: Queues whose list of waiting groups it is not on.
    """

    __slots__ = ("idle", "queues", "takers", "unlisted", "waiting")

    def __init__(self, queues: tuple[str, ...] | None) -> None:
        self.queues = queues
        self.takers = 0
        self.idle: dict[Taker, None] = {}
        self.waiting: dict[Taker, None] = {}
        self.unlisted: list[str | None] = [None] if queues is None else [*queues]


class Dispatcher:
    """Knows who holds what and who waits for what. All in memory, all in the writer's thread.

    Args:
        store: Where ready jobs are.
        lease_time: By which leases end.
        global_limit: Most jobs in flight over all takers; 0 for no limit.
        max_lease_ms: How long a lease may last at most.
        first_token: Where the leases' tokens start.
    """

    def __init__(
        self,
        store: Store,
        lease_time: LeaseTime,
        *,
        global_limit: int,
        max_lease_ms: int,
        first_token: int,
    ) -> None:
        self._store = store
        self._lease_time = lease_time
        self._global_limit = global_limit
        self._max_lease_ms = max_lease_ms
        self._first_token = self._token = first_token
        self.holders: dict[int, Taker] = {}
        self.takers: set[Taker] = set()
        self._groups: dict[tuple[str, ...] | None, Group] = {}
        # Groups with idle takers, in the order of their turns.
        self._turns: dict[Group, None] = {}
        self._waiting: dict[Group, None] = {}
        # By queue (None: for any): groups that may have waiting takers. Who is found to have none is taken off, and comes back
        # when it has some: so a group that names a thousand queues is not put on a thousand lists for each job.
        self._lists: dict[str | None, dict[Group, None]] = {}
        # Queues whose ready jobs a batch that reached `BATCH_BYTES` may have left while takers wait for them.
        self._unfinished: list[str] = []
        self._turned_away = 0  # in this batch
        # Another process has written: the lines are to be looked at again, and what is held is to be compared with the rows.
        self._lines_due = self._holds_due = False
        # Held jobs that are still to be compared, and when that was done last.
        self._unchecked: list[int] = []
        self._checked_at = 0

    def add(self, taker: Taker) -> None:
        """Give a taker jobs from the next batch on."""
        group = self._groups.get(taker.queues)
        if group is None:
            group = self._groups[taker.queues] = Group(taker.queues)
        group.takers += 1
        taker.group = group
        self.takers.add(taker)
        self._make_idle(taker)

    def remove(self, taker: Taker) -> None:
        """Give a taker no more jobs; what it holds stays held until it is released or settled."""
        if taker not in self.takers:
            return
        self.takers.discard(taker)
        self._withdraw(taker)
        group = taker.group
        group.takers -= 1
        if not group.takers:
            del self._groups[group.queues]
            for queue in group.queues or (None,):
                self._take_off(queue, group)

    def pause(self, taker: Taker) -> None:
        """Give a taker nothing until `resume`."""
        taker.paused = True
        if taker in self.takers:
            self._withdraw(taker)

    def resume(self, taker: Taker) -> None:
        """Give a paused taker jobs again."""
        taker.paused = False
        if taker in self.takers:
            self._make_idle(taker)

    def waits(self) -> bool:
        """Report whether somebody idle could be served now."""
        return bool(self._turns) and self._free_places() > 0

    def wants(self) -> bool:
        """Report whether somebody with a free slot waits for jobs."""
        return bool(self._waiting) and self._free_places() > 0

    def checks(self) -> bool:
        """Report whether held jobs are still to be compared with their rows."""
        return self._holds_due or bool(self._unchecked)

    def can_take(self) -> bool:
        """Report whether some taker has a free slot and a ready job to fill it; looks at every taker."""
        return self._free_places() > 0 and any(
            taker.free_slots() > 0 and self._has_ready(taker.queues) for taker in self.takers
        )

    def _has_ready(self, queues: tuple[str, ...] | None) -> bool:
        return (
            self._store.queues.any_ready()
            if queues is None
            else any(map(self._store.queues.takeable, queues))
        )

    def look_again(self) -> None:
        """Make all waiting takers idle: the counters or heads by which they were found to have nothing to take were wrong."""
        for group in list(self._waiting):
            self._wake_group(group, len(group.waiting))

    def notice_others(self) -> None:
        """Note that another process has written: it may have stored ready jobs, and ended jobs that fill slots here."""
        self._lines_due = self._holds_due = True

    def free_ended(self, keys: Iterable[int]) -> None:
        """Free the slots of jobs that another process has ended: they are no longer in flight under the token of their take.

        That needs no undo: the rows say so whether or not the open transaction lasts.
        """
        holders = self.holders
        holds = [(key, holders[key].held[key]) for key in keys if key in holders]
        if holds:
            held = self._store.held_under(holds)
            self.settle([hold[0] for hold in holds if hold not in held], [])

    def settle(self, keys: Iterable[int], undo: Undo) -> None:
        """Note that jobs are no longer in flight, which frees their holders' slots, and how to put that back.

        Args:
            keys: Jobs; those that nobody holds are passed over.
            undo: Gets what `hold` needs for each.
        """
        holders = self.holders
        freed: dict[Taker, None] = {}
        for key in keys:
            taker = holders.pop(key, None)
            if taker is not None:
                undo.append((key, taker, taker.held.pop(key)))
                freed[taker] = None
        for taker in freed:
            # One more free slot is no reason for a waiting taker to look into its empty queues again.
            if not taker.paused and taker in self.takers and taker not in taker.group.waiting:
                self._make_idle(taker)

    def run(self, now: int, deliveries: Deliveries, admit: Admit) -> dict[int, str]:
        """Take jobs for whoever can have some, inside the open transaction.

        Args:
            now: Epoch ms.
            deliveries: Gets what to deliver to whom after the commit; `undo` needs it too, if a take fails halfway.
            admit: Looks at jobs that are tied to something; gives the keys of those that nobody may get.

        Returns:
            By key: jobs that are in flight now too, held by nobody, because something stored of them cannot be read, and what.
        """
        corrupt: dict[int, str] = {}
        if not self.takers and not self.holders:
            return corrupt
        self._turned_away = 0
        if self.checks() and not 0 <= now - self._checked_at < CHECK_MS:
            self._check_holds(now)
        if self._lines_due:
            self._check_lines()
        fresh = (
            list(dict.fromkeys([*self._unfinished, *self._store.queues.fresh_ready()]))
            if self._waiting
            else []
        )
        self._unfinished = []
        left = BATCH_BYTES
        while left > 0:
            fresh = self._wake(fresh) if self._waiting else []
            if not self._turns or self._free_places() <= 0:
                return corrupt
            before = len(self.holders) + len(corrupt) + self._turned_away
            while left > 0 and self._turns and self._free_places() > 0:
                left -= self._serve(now, deliveries, corrupt, admit)
                if self._turned_away >= TURNED_AWAY:
                    left = 0
            if len(self.holders) + len(corrupt) + self._turned_away == before:
                return corrupt  # nothing is there, whatever a counter says
        self._unfinished = fresh
        return corrupt

    def undo(self, deliveries: Deliveries) -> None:
        """Forget takes whose transaction did not last."""
        for taker, rows in deliveries:
            for row in rows:
                self.holders.pop(row[0], None)
                taker.held.pop(row[0], None)
        # What anybody has learnt about empty queues came undone too: let all of them look again.
        for group in self._groups.values():
            group.idle.clear()
            group.waiting.clear()
        self._turns.clear()
        self._waiting.clear()
        for taker in sorted(self.takers, key=lambda taker: taker.number):
            if not taker.paused:
                self._make_idle(taker)

    def hold(self, key: int, taker: Taker, token: int) -> None:
        """Put back a hold whose settlement did not last."""
        self.holders[key] = taker
        taker.held[key] = token

    def _check_holds(self, now: int) -> None:
        """Compare some of what is held with the rows; those held when another process wrote all have their turn."""
        if not self._unchecked:
            self._holds_due = False
            self._unchecked = list(self.holders)
        chunk = self._unchecked[-CHECKED_JOBS:]
        del self._unchecked[-CHECKED_JOBS:]
        if chunk:
            self._checked_at = now
            self.free_ended(chunk)

    def _check_lines(self) -> None:
        """Find the queues with ready jobs for which somebody waits."""
        self._lines_due = False
        named = {queue for queue in self._lists if queue is not None}
        if named:
            self._unfinished += self._store.queues.ready_among(named)
        if None in self._lists and self._store.queues.any_ready():
            self._wake_listed(None, len(self.takers))

    def _free_places(self) -> int:
        """Report how many more jobs may be in flight."""
        if self._global_limit == 0:
            return _NO_LIMIT
        return self._global_limit - len(self.holders)

    # -- turns

    def new_token(self) -> int:
        """Give a token that no other take has."""
        self._token += 1
        return self._token

    def gave(self, token: int) -> bool:
        """Tell whether a token is of a take of this process."""
        return self._first_token < token <= self._token

    def take_readable(
        self,
        queues: Sequence[str] | None,
        limit: int,
        max_bytes: int,
        hold: Hold,
        corrupt: dict[int, str],
        admit: Admit,
    ) -> list[TakenRow]:
        """Take from the store, and leave out whom `admit` turns away, and what cannot be read.

        `corrupt` gets the latter, by key, with what is wrong.
        """
        return self._admitted(self._store.take(queues, limit, max_bytes, hold), corrupt, admit)

    def _admitted(self, taken: Taken, corrupt: dict[int, str], admit: Admit) -> list[TakenRow]:
        rows = _readable(taken, corrupt)
        if not taken.hooked:
            return rows
        away = admit(taken.hooked)
        self._turned_away += len(away)
        for key in away:
            corrupt.pop(key, None)
        if away and self._store.slots.limits:
            self._store.slots.uncount(Counter(row[1] for row in rows if row[0] in away))
        return [row for row in rows if row[0] not in away]

    def _serve(self, now: int, deliveries: Deliveries, corrupt: dict[int, str], admit: Admit) -> int:
        """Serve the group whose turn it is, or several at once whose turns are small; give the bytes of long payloads taken."""
        turns, together = self._next_turns()
        if not turns:
            return 0
        deadline = self._lease_time.at(now) + self._max_lease_ms
        hold = Hold(HoldKind.STREAM, self.new_token(), self._store.session, deadline, now)
        if together:
            wants = [(group.queues[0], limit) for group, _, limit in turns if group.queues]
            taken = self._store.take_each(wants, TURN_BYTES, hold)
        else:
            group, takers, limit = turns[0]
            taken = self._store.take(group.queues, limit, TURN_BYTES, hold)
        nothing = not taken.rows and not taken.corrupt
        rows = self._admitted(taken, corrupt, admit)
        if not self.holders.keys().isdisjoint([row[0] for row in rows]):
            # Other processes have ended the holds that memory still has.
            self.free_ended([row[0] for row in rows])
        if together:
            by_queue: dict[str, list[TakenRow]] = {}
            for row in rows:
                by_queue.setdefault(row[1], []).append(row)
            for group, takers, _ in turns:
                (queue,) = group.queues or ("",)
                self._hand_out(
                    group, takers, by_queue.get(queue, []), hold.token, deliveries, nothing=nothing
                )
        else:
            self._hand_out(group, takers, rows, hold.token, deliveries, nothing=nothing)
        return sum([row[10] for row in rows if row[10]])

    def _next_turns(self) -> tuple[list[tuple[Group, list[Taker], int]], bool]:
        """Pick whose turns come next: groups, their takers, and how many jobs these may have together.

        Returns:
            The turns, and whether they are small ones of one queue each.
        """
        turns: list[tuple[Group, list[Taker], int]] = []
        places = self._free_places()
        for group in list(islice(self._turns, SMALL_TURNS)):
            most = min(places, TURN_JOBS)
            single = group.queues is not None and len(group.queues) == 1
            if group.queues is not None and single:
                most = min(most, self._store.queues.takeable(group.queues[0]))
            together = single and most <= SMALL_JOBS
            if turns and not together:
                break
            del self._turns[group]
            takers, wanted = _first_idle(group, most if most > 0 else _NO_LIMIT)
            if most <= 0:
                self._let_wait(group, takers)
                continue
            if not wanted:
                continue
            turns.append((group, takers, min(wanted, most)))
            places -= min(wanted, most)
            if not together:
                return turns, False
            if places <= 0:
                break
        return turns, True

    def _hand_out(
        self,
        group: Group,
        takers: list[Taker],
        rows: list[TakenRow],
        token: int,
        deliveries: Deliveries,
        *,
        nothing: bool,
    ) -> None:
        """Split taken jobs evenly among takers of a group, in order; who gets none waits if there was nothing to take."""
        left, at = len(rows), 0
        others = sum([taker.free_slots() for taker in takers])
        still_idle: list[Taker] = []
        unserved: list[Taker] = []
        for turn, taker in enumerate(takers):
            free = taker.free_slots()
            others -= free
            share = min(free, max(left - others, -(-left // (len(takers) - turn))))
            if not share:
                unserved.append(taker)
                continue
            given = rows[at : at + share]
            for row in given:
                taker.held[row[0]] = token
                self.holders[row[0]] = taker
            deliveries.append((taker, given))
            if share < free:
                still_idle.append(taker)
            at += share
            left -= share
        if nothing:
            self._let_wait(group, unserved)
        elif unserved:  # they have their turn before those served
            group.idle.update(dict.fromkeys(unserved))
        if still_idle:
            group.idle.update(dict.fromkeys(still_idle))
        if group.idle:
            self._turns[group] = None

    # -- idle and waiting

    def _make_idle(self, taker: Taker) -> None:
        group = taker.group
        if taker in group.waiting:
            self._withdraw(taker)
        group.idle[taker] = None
        self._turns.setdefault(group)

    def _withdraw(self, taker: Taker) -> None:
        """Make a taker neither idle nor waiting."""
        group = taker.group
        group.idle.pop(taker, None)
        group.waiting.pop(taker, None)
        if not group.idle:
            self._turns.pop(group, None)
        if not group.waiting:
            self._waiting.pop(group, None)

    def _let_wait(self, group: Group, takers: list[Taker]) -> None:
        """Let takers wait that have a free slot and that are not idle any more."""
        if not takers:
            return
        group.waiting.update(dict.fromkeys(takers))
        self._waiting[group] = None
        for queue in group.unlisted:
            self._lists.setdefault(queue, {})[group] = None
        group.unlisted.clear()

    def _wake(self, fresh: list[str]) -> list[str]:
        """Wake waiting takers of queues that have got ready jobs, as many as there are jobs; give the queues with ready jobs."""
        blocked = self._free_places() <= 0
        ready = [(queue, jobs) for queue in fresh if (jobs := self._store.queues.takeable(queue)) > 0]
        for queue, jobs in ready:
            for name in (queue, None):
                if name in self._lists:
                    # Nobody looks at these queues again when there is a free place: so all are woken who could take from them.
                    self._wake_listed(name, len(self.takers) if blocked else jobs)
        return [queue for queue, _ in ready]

    def _wake_listed(self, queue: str | None, wanted: int) -> None:
        groups = self._lists.get(queue)
        while groups and wanted > 0:
            group = next(iter(groups))
            wanted -= self._wake_group(group, wanted)
            self._take_off(queue, group)
            if group.waiting:
                self._lists.setdefault(queue, {})[group] = None  # behind the others
            else:
                group.unlisted.append(queue)

    def _wake_group(self, group: Group, wanted: int) -> int:
        """Make up to `wanted` waiting takers of a group idle; report how many."""
        woken = list(islice(group.waiting, wanted))
        for taker in woken:
            del group.waiting[taker]
        if not group.waiting:
            self._waiting.pop(group, None)
        if woken:
            group.idle.update(dict.fromkeys(woken))
            self._turns.setdefault(group)
        return len(woken)

    def _take_off(self, queue: str | None, group: Group) -> None:
        groups = self._lists.get(queue)
        if groups is not None:
            groups.pop(group, None)
            if not groups:
                del self._lists[queue]


def _first_idle(group: Group, most: int) -> tuple[list[Taker], int]:
    """Take the first idle takers off a group until they have `most` free slots together; give them and their free slots."""
    takers: list[Taker] = []
    free = 0
    while group.idle and free < most:
        taker = next(iter(group.idle))
        del group.idle[taker]
        if (slots := taker.free_slots()) > 0:
            takers.append(taker)
            free += slots
    return takers, free


def _readable(taken: Taken, corrupt: dict[int, str]) -> list[TakenRow]:
    """Leave out jobs of which something cannot be read, and note what."""
    rows = taken.rows
    corrupt.update(taken.corrupt)
    unreadable = [row[0] for row in rows if row[8] is not None and not policy_readable(row[8])]
    if not unreadable:
        return rows
    corrupt.update(dict.fromkeys(unreadable, "its policy cannot be read"))
    return [row for row in rows if row[0] not in corrupt]
