"""What jobs carry beside their payload: written and read back, in the form that the Faktory door keeps."""

from __future__ import annotations

import pytest
from msgspec import Raw

from anew.fwp.jobs import meta_of
from anew.jobs import NewJob, State
from anew.jobs.carried import carrying, read_carried, result_of, write_carried
from anew.jobs.codec import JobHooks, PushedJob
from tests.unit.jobs.helpers import make_job

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def test_what_is_written_is_read_and_the_faktory_door_shows_it_as_custom() -> None:
    meta = write_carried(TRACE)
    assert meta[:1] == b" "  # no result begins so
    assert read_carried(meta) == TRACE
    assert (
        bytes(meta_of(meta).custom)
        == b'{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
    )
    assert meta_of(meta).created_at == ""


def test_nothing_is_written_for_nothing() -> None:
    assert write_carried({}) == b""
    jobs = [NewJob("t", "q", Raw(b"{}"))]
    assert carrying(jobs, {}) is jobs


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (None, {}),
        (b"", {}),
        (b'["2026-01-31T23:59:59Z"]', {}),
        (b'["",0,null,"2026-01-31T23:59:59Z"]', {}),
        (b'["2026-01-31T23:59:59Z",60,{"traceparent":"00-a","n":1,"deep":{"a":"b"}}]', {"traceparent": "00-a"}),
        (b'{"a":"b"}', {}),
        (b"[1,2,3]", {}),
        (b"7", {}),
        (b"\xff", {}),
        (b'["",0,{"a":"\xff"}]', {}),
    ],
)  # fmt: skip
def test_of_what_a_door_keeps_the_texts_in_custom_are_read(
    meta: bytes | None, expected: dict[str, str]
) -> None:
    assert read_carried(meta) == expected


def test_a_job_that_carries_something_is_otherwise_the_same() -> None:
    ties = JobHooks(expires_at=5)
    plain = NewJob("t", "q", Raw(b"{}"), priority=7, ready_at=9)
    tied = PushedJob("t", "q", Raw(b"{}"), jid="j" * 8, hooks=ties)
    one, two = carrying([plain, tied], TRACE)
    meta = write_carried(TRACE)
    assert one == PushedJob("t", "q", Raw(b"{}"), priority=7, ready_at=9, meta=meta)
    assert two == PushedJob("t", "q", Raw(b"{}"), jid="j" * 8, hooks=ties, meta=meta)
    assert tied.meta == b""


@pytest.mark.parametrize(
    ("state", "jid", "meta", "expected"),
    [
        (State.COMPLETED, None, b"7", b"7"),
        (State.COMPLETED, None, b'["",0,{"a":"b"}]', b'["",0,{"a":"b"}]'),
        (State.COMPLETED, None, None, None),
        (State.COMPLETED, None, write_carried(TRACE), None),
        (State.COMPLETED, "two-doors-1", b'["2026-01-31T23:59:59Z"]', None),
        (State.READY, None, write_carried(TRACE), None),
    ],
)
def test_a_result_stands_where_it_was_carried(
    state: State, jid: str | None, meta: bytes | None, expected: bytes | None
) -> None:
    assert result_of(make_job(state=state, jid=jid, meta=meta)) == expected
