"""Payloads in a file that has been damaged: what is not whole is never handed to anybody, and what is wrong is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anew.jobs import NewJob
from anew.store.sql import payloads, reader
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import batch, check_counts, hold, new_job, one, put

LONG = b'"' + b"x" * 600_000 + b'"'
APART = new_job(payload=LONG)
INLINE = new_job(payload=b'{"n":1}')

DAMAGE = [
    (APART, "DELETE FROM payload", "its payload is missing"),
    (APART, "DELETE FROM payload WHERE part = 1", "of its payload of 600002 bytes there are 337858"),
    (
        APART,
        "UPDATE payload SET data = x'22' WHERE part = 2",
        "of its payload of 600002 bytes there are 524289",
    ),
    (
        APART,
        "UPDATE payload SET data = zeroblob(75714) WHERE part = 2",
        "its payload does not match its checksum",
    ),
    (INLINE, "UPDATE job SET payload = x'7b226e223a337d'", "its payload does not match its checksum"),
    (INLINE, "UPDATE job SET payload = NULL", "its payload is missing"),
    (INLINE, "UPDATE job SET payload_crc = payload_crc + 1", "its payload does not match its checksum"),
]


@pytest.mark.parametrize(("job", "statement", "wrong"), DAMAGE)
def test_a_payload_that_is_not_whole_is_told_apart(job: NewJob, statement: str, wrong: str) -> None:
    store = open_sqlite()
    put(store, job)
    store._link.connection.execute(statement)
    assert one(store, 1).payload is None
    assert store.load([1])[0].key == 1
    put(store, new_job(payload=b"2"), first_key=2)
    with batch(store):
        taken = store.take(None, 10, 1 << 30, hold())
    assert [row[0] for row in taken.rows] == [2]
    assert taken.corrupt == {1: wrong}
    check_counts(store)
    store.close()


def test_a_payload_from_before_there_were_checksums_is_taken_as_it_is() -> None:
    store = open_sqlite()
    put(store, APART, INLINE)
    store._link.connection.execute("UPDATE job SET payload_crc = NULL")
    assert [job.payload for job in store.load([1, 2], payload=True)] == [LONG, b'{"n":1}']
    with batch(store):
        taken = store.take(None, 10, 1 << 30, hold())
    assert [row[-1] for row in taken.rows] == [LONG, b'{"n":1}']
    assert taken.corrupt == {}
    store.close()


@pytest.mark.parametrize(
    ("stored", "folded"), [(LONG, LONG[:-1] + b'y"'), (LONG, b'"short"'), (b'"short"', LONG)]
)
def test_a_payload_that_is_folded_into_while_it_is_read_is_read_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bytes, folded: bytes
) -> None:
    """Its row and its parts are read by several statements, beside the process that writes."""
    store = open_sqlite(tmp_path)
    put(store, APART, new_job(payload=stored))
    found = store.reader()
    folds = [folded]

    def meanwhile(run: Any, key: int) -> bytes | None:
        while folds:
            with batch(store):
                store.fold_into(2, folds.pop(), 1, None)
        return payloads.read_payload(run, key)

    monkeypatch.setattr(reader, "read_payload", meanwhile)
    assert found.payloads([1, 2], 10 << 20) == [LONG, stored]
    assert found.payloads([2], 10 << 20) == [folded]
    found.close()
    store.close()
