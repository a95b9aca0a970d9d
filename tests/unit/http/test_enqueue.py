"""The answers to enqueues, written with as little as can be."""

import json

import msgspec

from anew.http.enqueue import plain_answer, plain_answers
from anew.jobs import NewJob

TAG = "0123abcde"


def job(kind: str, queue: str) -> NewJob:
    return NewJob(type=kind, queue=queue, payload=msgspec.Raw(b"1"))


def test_the_answer_to_a_bulk_is_that_of_each_job() -> None:
    """The last key that there is, and names that JSON must escape, come out right too."""
    jobs = [job("a", "q"), job("b", "q"), job("a", "q"), job('"\\é\n', "r"), job("a", '","id":"')]
    first = (1 << 63) - len(jobs)
    answer = plain_answers(TAG, first, jobs, 1_700_000_000_000)
    singly = [plain_answer(TAG.encode(), first + at, job, 1_700_000_000_000) for at, job in enumerate(jobs)]
    assert answer == b'{"jobs":[' + b",".join(singly) + b"]}"
    listed = json.loads(answer)["jobs"]
    assert [(one["type"], one["queue"]) for one in listed] == [(one.type, one.queue) for one in jobs]
    assert listed[-1]["id"] == TAG + "7fffffffffffffff"
    assert listed[0] == {
        "id": TAG + "7ffffffffffffffb",
        "type": "a",
        "queue": "q",
        "priority": 32768,
        "status": "ready",
        "ready_at": 1_700_000_000_000,
        "attempts": 0,
        "duplicate": False,
        "folded": False,
    }
