"""Makes jobs of what other transactions of the store's database have left; see `anew.store.protocol.OutboxRows`."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from anew.backoff import policy_from_json
from anew.engine.batch import Batch
from anew.errors import AnewError, InvalidInput, StoreBusy, StoreFailed, StoreFull
from anew.jobs.codec import PushedJob
from anew.jobs.names import check_name
from anew.jobs.payload_limits import judging
from anew.store.protocol import OutboxRows

log = logging.getLogger("anew.engine")

MOVED = 200
"""Rows that become jobs in one batch."""

_decode = msgspec.json.Decoder(PushedJob).decode

UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


def relay(batch: Batch, outbox: OutboxRows) -> bool:
    """Make jobs of some rows, in the transaction that removes them; report whether there may be more.

    What can be no job stays, with the reason, and holds up no other.
    """
    rows = outbox.rows(MOVED)
    moved: list[int] = []
    for id_, text in rows:
        try:
            batch.insert([_job_of(text)])
        except (StoreBusy, StoreFull, StoreFailed):  # no word about this row
            raise
        except AnewError as error:
            log.error("a row of the outbox is no job", extra={"outbox_id": id_, "reason": str(error)})
            outbox.refuse(id_, str(error))
        else:
            moved.append(id_)
    outbox.drop(moved)
    return len(rows) == MOVED


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
    for _ in judging(bytes(job.payload)):
        pass
    if isinstance(job.policy, msgspec.Raw):
        policy_from_json(bytes(job.policy))  # raises in its own words
    return job
