"""Moves Faktory's jobs into a store, a chunk a transaction, so that a run that ends midway is gone on with and doubles nothing.

Beside each chunk stands a note of how far its place has come: how many of its jobs were read, what became of them, and a digest of
all that was read. A later run reads that much again, insists on the same digest, and goes on behind it. So neither ids, which may
repeat, nor jobs that have run meanwhile matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import msgspec

from anew.app.faktory_data import FaktoryData
from anew.app.settled import defaults_of, fwp_policies, open_store
from anew.clock import SystemClock
from anew.config import Settings
from anew.engine import Engine, Limits
from anew.engine.moving import adopt_queues, forget_notes, move_in, read_notes
from anew.engine.upkeep import apply_one
from anew.errors import Conflict, InvalidInput, NotFound
from anew.fwp.policies import Policies
from anew.fwp.stored import StoredJobs
from anew.jobs.moved import MovedJob
from anew.store.sqlite import SqliteArchive

CHUNK: Final = 500
"""Jobs in one transaction: some ten milliseconds, for which a server on the same store waits."""

CHUNK_BYTES: Final = 1 << 20
"""Where jobs are long there are fewer in a chunk, so that it has about so many bytes."""

FIRST: Final = 16
"""Jobs that are read first of a place, before anything is known of their length."""

DIGEST_BYTES: Final = 16

QUEUES: Final = "queues"
"""The note that says that queues are listed and paused; no place has this name."""

Stored = tuple[bytes, float | None]


class _Note(msgspec.Struct, frozen=True):
    """How far one place has come."""

    read: int = 0
    imported: int = 0
    refused: int = 0
    digest: str = ""


_read_note = msgspec.json.Decoder(_Note).decode


def _written(note: _Note) -> str | None:
    """Give a note's text; None for that of a place of which nothing was read."""
    return msgspec.json.encode(note).decode() if note.read else None


@dataclass(slots=True)
class Tally:
    """What became of the jobs of one place.

    Attributes:
        there: How many Redis has.
        read: How many were read.
        imported: How many are in the store now, or would be after a dry run.
        skipped: How many were imported by an earlier run.
        refused: How many cannot be read, an earlier run's among them.
    """

    there: int
    read: int = 0
    imported: int = 0
    skipped: int = 0
    refused: int = 0

    def agrees(self) -> bool:
        """Report whether all that is there was read, and all that was read is accounted for."""
        return self.there == self.read == self.imported + self.skipped + self.refused


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that cannot be read.

    Attributes:
        place: ``q:NAME`` or a set.
        number: Which one there: 0 is the first, in a queue the one that would run next.
        reason: What is wrong with it.
        data: The beginning of what is there.
    """

    place: str
    number: int
    reason: str
    data: str


@dataclass(slots=True)
class Report:
    """What an import came to.

    Attributes:
        tallies: By place.
        queues, paused: Names of Faktory's queues.
        untied: How many of the jobs read by this run name each part of Faktory Enterprise that is not moved.
        others: How many keys are none of Faktory 1.10's, and the names of some.
    """

    tallies: dict[str, Tally]
    queues: list[str]
    paused: list[str]
    others: tuple[int, list[str]]
    untied: Mapping[str, int] = field(default_factory=dict)

    def agrees(self) -> bool:
        """Report whether the counts of all places add up."""
        return all(tally.agrees() for tally in self.tallies.values())

    def refused(self) -> int:
        """Count the jobs that cannot be read."""
        return sum(tally.refused for tally in self.tallies.values())


class _Target:
    """The store that is written to."""

    def __init__(self, settings: Settings) -> None:
        self._store = open_store(settings, serves=False)
        try:
            limits = Limits(min_free_bytes=settings.limits.min_free_disk)
            self._engine = Engine(
                self._store, clock=self._store.clock, defaults=defaults_of(settings), limits=limits
            )
        except BaseException:
            self._store.close()
            raise

    def apply(self, verb: Callable[..., Any]) -> Any:
        return apply_one(self._engine, verb)

    def close(self) -> None:
        self._store.close()


def import_faktory(
    data: FaktoryData,
    settings: Settings,
    *,
    dry_run: bool = False,
    start_over: bool = False,
    refused: Callable[[Refusal], None],
    progress: Callable[[int, int], None],
) -> Report:
    """Move all jobs into the store that the settings name, or find out what that would come to.

    Args:
        data: Where they are.
        settings: Of the server whose store it is; a server may have it open.
        dry_run: Write nothing.
        start_over: Forget what earlier runs have imported, and import all.
        refused: Called for each job that cannot be read.
        progress: Called with how many jobs have been read, and how many there are.

    Raises:
        Conflict: An earlier run has imported something else, or the data has changed meanwhile.
        StoreFull, StoreBusy, StoreFailed: The store failed; what is in it by then is known to the next run.
    """
    target = None if dry_run else _Target(settings)
    try:
        notes = _notes(settings, target) if not start_over else {}
        if target is not None and start_over:
            target.apply(forget_notes)
        run = _Run(data, settings, target, refused, progress)
        return run.move({place: _read_note(text) for place, text in notes.items() if place != QUEUES})
    finally:
        if target is not None:
            target.close()


def _notes(settings: Settings, target: _Target | None) -> dict[str, str]:
    if target is not None:
        found: dict[str, str] = target.apply(read_notes)
        return found
    try:
        archive = SqliteArchive(settings.store.root_dir)
    except NotFound:
        return {}
    try:
        return archive.notes()
    finally:
        archive.close()


class _Run:
    """One import."""

    def __init__(
        self,
        data: FaktoryData,
        settings: Settings,
        target: _Target | None,
        refused: Callable[[Refusal], None],
        progress: Callable[[int, int], None],
    ) -> None:
        self._data = data
        self._target = target
        self._refused = refused
        self._progress = progress
        policies = Policies(own_policy=settings.retry.policy is not None, chosen=fwp_policies(settings))
        self._stored = StoredJobs(policies, SystemClock().now())
        self._tallies = {place: Tally(there) for place, there in data.sizes.items()}
        self._read, self._there = 0, sum(data.sizes.values())

    def move(self, notes: Mapping[str, _Note]) -> Report:
        """Check what was read before, all of it before anything is written; then go on with each place."""
        data = self._data
        for place, note in notes.items():
            self._check(place, note)
        if self._target is not None:
            # First, or a server would hand out what is paused.
            self._target.apply(adopt_queues(data.queues, data.paused, QUEUES))
        for place in data.sizes:
            self._move_place(place, notes.get(place, _Note()))
        data.require_still()
        sizes = data.sizes_now()
        for place, tally in self._tallies.items():
            tally.there = sizes.get(place, 0)
        return Report(self._tallies, data.queues, data.paused, data.others, dict(self._stored.untied))

    def _check(self, place: str, note: _Note) -> None:
        digest, read = "", 0
        for chunk in self._chunks(place, 0, note.read):
            digest = _digest(digest, chunk)
            read += len(chunk)
            self._said(place, len(chunk))
        if read != note.read or digest != note.digest:
            raise Conflict(
                f"{place} is not as it was when the store's jobs were imported: either this is another Faktory, or it has run "
                "since; --start-over imports all that is there now, what was imported before a second time"
            )
        tally = self._tallies[place]
        tally.skipped, tally.refused = note.imported, note.refused

    def _move_place(self, place: str, note: _Note) -> None:
        for chunk in self._chunks(place, note.read, self._tallies[place].there):
            jobs = list(self._readable(place, note.read, chunk))
            before, note = (
                note,
                _Note(
                    note.read + len(chunk),
                    note.imported + len(jobs),
                    note.refused + len(chunk) - len(jobs),
                    _digest(note.digest, chunk),
                ),
            )
            self._data.require_still()
            if self._target is not None:
                self._target.apply(move_in(jobs, place, _written(before), _written(note) or ""))
            tally = self._tallies[place]
            tally.imported += len(jobs)
            tally.refused += len(chunk) - len(jobs)
            self._said(place, len(chunk))

    def _readable(self, place: str, number: int, chunk: Sequence[Stored]) -> Iterator[MovedJob]:
        for at, (data, score) in enumerate(chunk, number):
            try:
                yield self._stored.job(place, data, score)
            except InvalidInput as error:
                self._refused(Refusal(place, at, str(error), data[:200].decode("utf-8", "replace")))

    def _chunks(self, place: str, start: int, end: int) -> Iterator[list[Stored]]:
        """Read a part of a place; after a chunk with long jobs fewer are asked for."""
        n = FIRST
        while start < end:
            found = (
                self._data.read(place, start, min(n, CHUNK, end - start)) if place in self._tallies else []
            )
            chunk = _bounded(found)
            if not chunk:
                return
            yield chunk
            start += len(chunk)
            size = sum(len(data) for data, _ in chunk) // len(chunk) + 1
            n = max(1, CHUNK_BYTES // size)

    def _said(self, place: str, n: int) -> None:
        self._tallies[place].read += n
        self._read += n
        self._progress(self._read, self._there)


def _bounded(found: list[Stored]) -> list[Stored]:
    """Give the first of some jobs, as many as one chunk takes; one job always."""
    left = CHUNK_BYTES
    for at, (data, _) in enumerate(found):
        left -= len(data)
        if at and left < 0:
            return found[:at]
    return found


def _digest(before: str, chunk: Sequence[Stored]) -> str:
    """Add jobs to the digest of those before them, one by one: it does not show how they were cut into chunks."""
    digest = before.encode("ascii")
    for data, score in chunk:
        one = blake2b(digest, digest_size=DIGEST_BYTES)
        one.update(b"%d %r " % (len(data), score))
        one.update(data)
        digest = one.hexdigest().encode("ascii")
    return digest.decode("ascii")
