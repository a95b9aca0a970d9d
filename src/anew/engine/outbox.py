"""Makes jobs of what other transactions of the store's database have left; see `anew.store.protocol.OutboxRows`."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import msgspec

from anew.backoff import policy_from_json
from anew.engine.batch import Batch
from anew.errors import AnewError, InvalidInput, StoreBusy, StoreFailed, StoreFull
from anew.jobs.codec import JobHooks, PushedJob
from anew.jobs.names import check_length, check_name
from anew.jobs.payload_limits import judging
from anew.store.protocol import OutboxRows

log = logging.getLogger("anew.engine")

MOVED: Final = 200
"""Rows that become jobs in one batch."""

MOVED_BYTES: Final = 4 << 20
"""The same of their bytes, once there is one."""

MOST_REASON: Final = 1_000
"""Characters of the reason that is kept with a row."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)

_decode = msgspec.json.Decoder(PushedJob).decode


class RowsRefused(Exception):
    """The store does not take the jobs of some rows: the transaction must be undone, and no operation in it is to blame."""


class Relay:
    """Moves the rows of one outbox, some in each batch, in the transaction that removes them.

    What can be no job stays, with the reason, and holds up no other. Rows are stored together; where the store refuses them, half
    as many are tried next, down to the one that it does not take.

    Args:
        outbox: The rows.
    """

    def __init__(self, outbox: OutboxRows) -> None:
        self._outbox = outbox
        self._at_once = MOVED
        self._refused: dict[int, str] = {}
        self._rests = False

    def run(self, batch: Batch) -> bool:
        """Move some rows; report whether there may be more.

        Raises:
            RowsRefused: The store does not take them. The next transaction moves none, so that its operations go through.
        """
        if not self._outbox.waits or batch.full:
            return False
        refused, self._refused = self._refused, {}
        batch.on_undo.append(partial(self._refused.update, refused))
        for id_, reason in refused.items():
            self._refuse(id_, reason)
        if self._rests:
            self._rests = False
            return True
        jobs = self._read()
        self._store(batch, jobs)
        self._outbox.drop(list(jobs))
        self._at_once = min(2 * self._at_once, MOVED)
        return True

    def _read(self) -> dict[int, PushedJob]:
        """Read the jobs of the first rows, by the rows' ids; refuse those that are none."""
        jobs: dict[int, PushedJob] = {}
        for id_, text in self._outbox.rows(self._at_once, MOVED_BYTES):
            try:
                jobs[id_] = _job_of(text)
            except InvalidInput as error:
                self._refuse(id_, str(error))
        return jobs

    def _store(self, batch: Batch, jobs: dict[int, PushedJob]) -> None:
        if not jobs:
            return
        try:
            batch.insert(list(jobs.values()))
        except Exception as error:
            known = error if isinstance(error, AnewError) else batch.store.explain(error)
            if isinstance(known, StoreBusy | StoreFull | StoreFailed):  # no word about these rows
                raise
            self._rests = True
            self._at_once = max(1, len(jobs) // 2)
            if len(jobs) == 1:
                self._refused = dict.fromkeys(jobs, str(error) or type(error).__name__)
            raise RowsRefused from error

    def _refuse(self, id_: int, reason: str) -> None:
        log.error("a row of the outbox is no job", extra={"outbox_id": id_, "reason": reason})
        self._outbox.refuse(id_, reason[:MOST_REASON])


def _job_of(text: bytes) -> PushedJob:
    """Read a row.

    Raises:
        InvalidInput: It is no job.
    """
    try:
        job = _decode(text)
    except UNREADABLE as error:
        raise InvalidInput(f"the job cannot be read: {error}") from error
    check_name(job.type, "type")
    check_name(job.queue, "queue")
    _check_text(job.jid, "jid")
    if job.hooks is not None:
        _check_ties(job.hooks)
    for _ in judging(bytes(job.payload)):
        pass
    if isinstance(job.policy, msgspec.Raw):
        policy_from_json(bytes(job.policy))  # raises in its own words
    return job


def _check_ties(ties: JobHooks) -> None:
    if ties.batch is not None or ties.callback is not None:
        raise InvalidInput("batch: a job that joins a batch cannot come through the outbox", field="batch")
    if ties.limit is not None:
        _check_text(ties.limit.name, "limit")


def _check_text(text: str, field: str) -> None:
    """Refuse what would be stored and could not stand in an index later."""
    check_length(text, field)
    if "\0" in text:
        raise InvalidInput(f"{field} must not contain null bytes", field=field)
