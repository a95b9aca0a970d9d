"""Jobs of a stream, however it is cut into pieces."""

from __future__ import annotations

import pytest

from anew.client.stream import Jobs
from anew.errors import Unreachable

JOB = (
    '{"id":"a","type":"caf\u00e9","queue":"q","priority":3,"status":"in_flight","payload":1,"ready_at":5,"attempts":0}'
).encode()


def test_jobs_survive_every_way_of_cutting_the_stream() -> None:
    stream = JOB + b"\n\n" + JOB + b"\r\n\n"
    for size in range(1, len(stream) + 1):
        jobs = Jobs()
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        got = [event for piece in pieces for event in jobs.feed(piece)]
        assert [None if job is None else bytes(job.document) for job in got] == [JOB, None, JOB, None]
        jobs.end()


def test_a_stream_that_ends_inside_a_job_says_so() -> None:
    jobs = Jobs()
    assert jobs.feed(JOB[:10]) == []
    with pytest.raises(Unreachable, match="ended inside a job"):
        jobs.end()
    (job,) = jobs.feed(JOB[10:] + b"\n{")
    assert job is not None
    assert job.type == "caf\u00e9"
    with pytest.raises(Unreachable, match="ended inside a job"):
        jobs.end()
