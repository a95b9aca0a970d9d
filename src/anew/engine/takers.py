"""Hands ready jobs to waiting takers, fairly and without looking at takers that have nothing to gain.

A taker is *hungry* while it has a free slot and its queues may hold ready jobs; it is *parked* once they were found empty; it is
neither while it has no free slot or its peer is behind. The rule that everything here keeps: after each batch no parked taker has
a ready job in one of its queues, so a ready job and a free slot never both wait (unless the global limit holds them, or the batch
has its fill of bytes: then the taker is still hungry, and the next batch comes at once).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count, islice

from anew.jobs import HoldKind
from anew.jobs.terms import policy_readable
from anew.store.protocol import Hold, Store, TakenRow

TURN_JOBS = 250
"""Most jobs a taker gets before the next hungry one has its turn."""

TURN_BYTES = 1 << 20
"""Most payload bytes a taker gets in one turn, once it has one job."""

BATCH_BYTES = 4 << 20
"""Bytes of long payloads that one batch takes, but for its last turn; the next batch goes on, if its takers' peers keep up."""

_numbers = count(1)

Undo = list[tuple[int, "Taker", bool]]
"""Settled jobs with their holders, to be put back if the transaction does not last."""


class Taker:
    """Somebody who takes jobs as they become ready and settles them one by one or in bulk.

    Args:
        queues: The queues it takes from; None takes from all.
        prefetch: Most jobs it may hold unsettled, >= 1.
        deliver: Called after the commit with the jobs taken for it and the instant of the take.
        broken: Called when `deliver` has raised: it gets no more jobs, and what it was to get is given back.
    """

    __slots__ = ("broken", "deliver", "held", "number", "paused", "prefetch", "queues")

    def __init__(
        self,
        queues: Sequence[str] | None,
        prefetch: int,
        deliver: Callable[[list[TakenRow], int], None],
        broken: Callable[[], None] = lambda: None,
    ) -> None:
        self.number = next(_numbers)
        self.queues = None if queues is None else tuple(dict.fromkeys(queues))
        self.prefetch = prefetch
        self.deliver = deliver
        self.broken = broken
        self.held: dict[int, bool] = {}  # key -> whether its row is all there is of it
        self.paused = False

    def room(self) -> int:
        """Tell how many more jobs it may be given now."""
        return 0 if self.paused else self.prefetch - len(self.held)


class Dispatcher:
    """Knows who holds what and who waits for what. All in memory, all in the writer's thread.

    Args:
        store: Where ready jobs are.
        global_limit: Most jobs in flight over all takers; 0 for no limit.
        max_lease_ms: How long a lease may last at most.
        first_token: Where the leases' tokens start.
    """

    def __init__(self, store: Store, *, global_limit: int, max_lease_ms: int, first_token: int) -> None:
        self._store = store
        self._global_limit = global_limit
        self._max_lease_ms = max_lease_ms
        self._token = first_token
        self.holders: dict[int, Taker] = {}
        self._hungry: dict[Taker, None] = {}
        self._parked: dict[str | None, dict[Taker, None]] = {}
        # Queues whose ready jobs a batch that had its fill may have left beside parked takers.
        self._unfinished: list[str] = []
        self.takers: set[Taker] = set()

    def add(self, taker: Taker) -> None:
        """Let a taker take part."""
        self.takers.add(taker)
        self._hungry[taker] = None

    def remove(self, taker: Taker) -> None:
        """Give a taker no more jobs; what it holds stays held until it is released or settled."""
        self.takers.discard(taker)
        self._hungry.pop(taker, None)
        self._unpark(taker)

    def pause(self, taker: Taker) -> None:
        """Give a taker nothing until `resume`."""
        taker.paused = True
        self._hungry.pop(taker, None)
        self._unpark(taker)

    def resume(self, taker: Taker) -> None:
        """Let a paused taker take part again."""
        taker.paused = False
        if taker in self.takers:
            self._hungry[taker] = None

    def waits(self) -> bool:
        """Tell whether somebody hungry could be served now."""
        return bool(self._hungry) and self._room() > 0

    def can_take(self) -> bool:
        """Tell whether some taker has a free slot and a ready job to fill it; looks at every taker."""
        return self._room() > 0 and any(
            taker.room() > 0 and self._has_ready(taker.queues) for taker in self.takers
        )

    def _has_ready(self, queues: tuple[str, ...] | None) -> bool:
        return self._store.any_ready() if queues is None else any(map(self._store.ready, queues))

    def look_again(self) -> None:
        """Another process has written: takers that were found to have nothing to take may have something now."""
        for queue in list(self._parked):
            for taker in list(self._parked.get(queue, ())):
                self._unpark(taker)
                self._hungry[taker] = None

    def plain_among(self, keys: Iterable[int]) -> list[int]:
        """Pick the held jobs whose row is all there is of them."""
        holders = self.holders
        return [key for key in keys if key in holders and holders[key].held[key]]

    def settle(self, keys: Iterable[int], undo: Undo) -> None:
        """Note that jobs are no longer in flight, which frees their holders' slots, and how to put that back.

        Args:
            keys: Jobs; those that nobody holds are passed over.
            undo: Gets what `hold` needs for each.
        """
        holders, hungry = self.holders, self._hungry
        for key in keys:
            taker = holders.pop(key, None)
            if taker is None:
                continue
            undo.append((key, taker, taker.held.pop(key)))
            if not taker.paused and taker in self.takers:
                hungry[taker] = None

    def mark_changed(self, key: int) -> None:
        """Note that a held job has been patched, so that its row is looked at again when it ends."""
        taker = self.holders.get(key)
        if taker is not None:
            taker.held[key] = False

    def run(self, now: int, deliveries: list[tuple[Taker, list[TakenRow]]]) -> dict[int, str]:
        """Take jobs for whoever can have some, inside the open transaction.

        Args:
            now: Epoch ms.
            deliveries: Gets what to deliver to whom after the commit; also tells `undo`, if a take fails halfway.

        Returns:
            By key: jobs that are in flight now too, held by nobody, because something stored of them cannot be read, and what.
        """
        corrupt: dict[int, str] = {}
        fresh = list(dict.fromkeys([*self._unfinished, *self._store.fresh_ready()])) if self._parked else []
        self._unfinished = []
        left = BATCH_BYTES
        while left > 0:
            self._wake(fresh)
            if not self._hungry or self._room() <= 0:
                return corrupt
            takers, limit = self._next_in_turn()
            if not limit:
                continue
            rows = self._take(takers[0].queues, limit, now, corrupt)
            self._hand_out(takers, rows, deliveries)
            left -= sum([row[10] for row in rows if row[10]])
        self._unfinished = fresh
        return corrupt

    def undo(self, deliveries: list[tuple[Taker, list[TakenRow]]]) -> None:
        """Forget takes whose transaction did not last."""
        for taker, rows in deliveries:
            for row in rows:
                self.holders.pop(row[0], None)
                taker.held.pop(row[0], None)
        # What anybody has learnt about empty queues came undone too: let all of them look again.
        self._parked.clear()
        self._hungry = dict.fromkeys(
            sorted((taker for taker in self.takers if not taker.paused), key=lambda taker: taker.number)
        )

    def hold(self, key: int, taker: Taker, plain: bool) -> None:
        """Put back a hold whose settlement did not last."""
        self.holders[key] = taker
        taker.held[key] = plain

    def _room(self) -> int:
        if self._global_limit == 0:
            return TURN_JOBS
        return self._global_limit - len(self.holders)

    def _next_in_turn(self) -> tuple[list[Taker], int]:
        """Pick the hungry taker whose turn it is, with others of the same queues: one take serves them all.

        Returns:
            The takers, and how many jobs they may have together in this turn; 0 if they have no room.
        """
        first = next(iter(self._hungry))
        most = min(self._room(), TURN_JOBS)
        takers: list[Taker] = []
        wanted = 0
        for taker in self._hungry:
            room = taker.room() if taker.queues == first.queues else 0
            if room > 0:
                takers.append(taker)
                wanted += room
                if wanted >= most:
                    break
        for taker in takers or [first]:
            del self._hungry[taker]
        return takers, min(wanted, most)

    def _take(
        self, queues: tuple[str, ...] | None, limit: int, now: int, corrupt: dict[int, str]
    ) -> list[TakenRow]:
        if queues is None:
            if not self._store.any_ready():
                return []
        else:
            queues = tuple(queue for queue in queues if self._store.ready(queue))
            if not queues:
                return []
        hold = Hold(HoldKind.STREAM, self.new_token(), self._store.session, now + self._max_lease_ms, now)
        return self.take_readable(queues, limit, TURN_BYTES, hold, corrupt)

    def new_token(self) -> int:
        """Give a token that no other take has."""
        self._token += 1
        return self._token

    def take_readable(
        self,
        queues: Sequence[str] | None,
        limit: int,
        max_bytes: int,
        hold: Hold,
        corrupt: dict[int, str],
    ) -> list[TakenRow]:
        """Take from the store, and leave out what cannot be read; `corrupt` gets that, by key, with what is wrong."""
        rows, damaged = self._store.take(queues, limit, max_bytes, hold)
        corrupt.update(damaged)
        unreadable = [row for row in rows if row[8] is not None and not policy_readable(row[8])]
        if not unreadable:
            return rows
        corrupt.update({row[0]: "its policy cannot be read" for row in unreadable})
        return [row for row in rows if row[0] not in corrupt]

    def _hand_out(
        self, takers: list[Taker], rows: list[TakenRow], deliveries: list[tuple[Taker, list[TakenRow]]]
    ) -> None:
        """Split taken jobs evenly among takers, in order; whoever has room left stays hungry, or is parked if there were none."""
        left, at = len(rows), 0
        rooms = [taker.room() for taker in takers]
        served: list[Taker] = []
        for turn, taker in enumerate(takers):
            others = sum(rooms[turn + 1 :])
            share = min(rooms[turn], max(left - others, -(-left // (len(takers) - turn))))
            if share:
                self._hold(taker, rows[at : at + share])
                deliveries.append((taker, rows[at : at + share]))
                served.append(taker)
                at += share
                left -= share
            elif rows:
                self._hungry[taker] = None  # went away empty: its turn comes before that of those served
            else:
                self._park(taker)
        for taker in served:
            if taker.room() > 0:
                self._hungry[taker] = None

    def _hold(self, taker: Taker, rows: list[TakenRow]) -> None:
        held, holders = taker.held, self.holders
        for row in rows:
            # Attempts begin again with a redrive; the instant of the last failure stays, and so do the records.
            held[row[0]] = row[6] is None and row[9] is None and row[10] is None
            holders[row[0]] = taker

    def _wake(self, fresh: list[str]) -> None:
        """Make parked takers hungry for queues that have got ready jobs: as many takers as there are jobs."""
        blocked = self._room() <= 0
        for queue in fresh:
            wanted = self._store.ready(queue)
            for name in (queue, None):
                parked = self._parked.get(name)
                if parked and wanted:
                    for taker in list(parked if blocked else islice(parked, wanted)):
                        self._unpark(taker)
                        self._hungry[taker] = None

    def _park(self, taker: Taker) -> None:
        for queue in taker.queues if taker.queues is not None else (None,):
            self._parked.setdefault(queue, {})[taker] = None

    def _unpark(self, taker: Taker) -> None:
        for queue in taker.queues if taker.queues is not None else (None,):
            parked = self._parked.get(queue)
            if parked is not None:
                parked.pop(taker, None)
                if not parked:
                    del self._parked[queue]
