"""A long PUSHB is read as the decoder reads it in one go, wherever it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anew.errors import MalformedRequest
from anew.fwp import commands, long_bulk
from anew.fwp.commands import LONG_BULK, LongPushBulk, PushBulk, parse
from anew.fwp.jobs import SentJob
from anew.net.chunks import at_once

NESTED = [{"jid": "a"}, {"jid": "b", "x": [{"jid": "c"}, {"jid": "d"}]}]
"""Arguments that begin as jobs do."""


def some(count: int, **members: Any) -> list[dict[str, Any]]:
    return [{"jid": f"job-{n:06}", "jobtype": "kind", "args": [n]} | members for n in range(count)]


def jids(jobs: list[SentJob]) -> list[str | None]:
    return [job.jid for job in jobs]


def refusal(line: bytes) -> str:
    with pytest.raises(MalformedRequest) as caught:
        at_once(long_bulk.reading(line))
    return str(caught.value)


def test_a_line_up_to_a_length_is_read_at_once_and_a_longer_one_later() -> None:
    line = b"PUSHB [" + b" " * (LONG_BULK - len(b"PUSHB []")) + b"]"
    assert parse(line) == PushBulk([])
    assert parse(line + b" ") == LongPushBulk(line + b" ")


@pytest.mark.parametrize("piece", [40, 200, 5_000])
@pytest.mark.parametrize(
    "jobs",
    [
        some(300),
        some(100, args=NESTED),
        some(100, args=['},{"jid":"', '\\"},{"jid":"', "\\"]),
        [{"jid": "whole", "args": NESTED * 300}, *some(3)],
        [*some(3), {"jid": "whole", "args": NESTED * 300}],
        [None, *some(5), None, {}, *some(5, args=[None, None])],
        [{}, *some(5)],
        some(50, custom={"ключ": "ü" * 100}),
        [],
        None,
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\t\r\n ", " : ")])
def test_the_jobs_are_those_that_were_sent(
    monkeypatch: pytest.MonkeyPatch, piece: int, jobs: list[Any] | None, separators: tuple[str, str]
) -> None:
    monkeypatch.setattr(long_bulk, "PIECE", piece)
    text = json.dumps(jobs, separators=separators, ensure_ascii=False).encode()
    at_one = parse(b"PUSHB " + text)
    assert isinstance(at_one, PushBulk)
    assert at_once(long_bulk.reading(b"PUSHB " + text)) == at_one.jobs
    assert jids(at_one.jobs) == [(job or {}).get("jid") for job in jobs or ()]


@pytest.mark.parametrize("piece", [40, 1_000])
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b'{"jid":5}', "Expected `str | null`, got `int` - at `$[100].jid`"),
        (b'"x"', "got `str` - at `$[100]`"),
        (b"{", "malformed"),
        (b'{"jid":"\x01"}', "invalid character"),
        (b'{"jid":"a"}]', "trailing"),
        (b'{"args":[1e400]}', "args: number out of range"),
        (b'{"x":%b}' % (b"[" * 100_000), "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, piece: int, bad: bytes, said: str
) -> None:
    monkeypatch.setattr(long_bulk, "PIECE", piece)
    before = json.dumps(some(100))[1:-1].encode()
    for line in (b"PUSHB [%b,%b,%b]" % (before, bad, before), b"PUSHB [%b,%b]" % (before, bad)):
        told = refusal(line)
        assert told.startswith("invalid JSON: ")
        assert said in told or b'"a"}]' in bad
    for cut in (b"PUSHB [" + before, b"PUSHB [" + before + b",", b"PUSHB [" + before[:-1]):
        assert refusal(cut).startswith("invalid JSON: ")


def test_bad_utf_8_is_replaced_in_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_bulk, "PIECE", 50)
    line = b"PUSHB [" + b",".join([b'{"jid":"\xff\xc3\\ud800","args":["\xc3"]}'] * 20) + b"]"
    jobs = at_once(long_bulk.reading(line))
    assert jids(jobs) == ["\ufffd\ufffd\ufffd"] * 20
    assert bytes(jobs[7].args) == '["\ufffd"]'.encode()


def test_others_have_their_turn_between_pieces() -> None:
    """At least twice in each `PIECE` bytes, also where the arguments of jobs begin as jobs do."""
    for jobs in (some(20_000), some(4_000, args=NESTED)):
        line = b"PUSHB " + json.dumps(jobs).encode()
        assert sum(1 for _ in long_bulk.reading(line)) > len(line) / long_bulk.PIECE


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"queue": "q", "jid": "first"}, *some(9_000)]),
        json.dumps([None, *some(9_000)]),
        json.dumps([{}, *some(9_000)]),
        '[{ "jid":"first"},' + json.dumps(some(9_000))[1:],
        json.dumps(some(5_000), indent=40),
        json.dumps([{"args": NESTED}, *some(4_000, args=NESTED)]),
        json.dumps([{}] * 150_000),
    ],
    ids=[
        "another member first",
        "null first",
        "nothing first",
        "a space first",
        "far in",
        "arguments begin alike",
        "nothing at all",
    ],
)
def test_one_odd_job_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    read: list[int] = []

    def jobs_in(argument: bytes) -> list[SentJob]:
        read.append(len(argument))
        return commands.jobs_in(argument)

    monkeypatch.setattr(long_bulk, "jobs_in", jobs_in)
    jobs = at_once(long_bulk.reading(b"PUSHB " + text.encode()))
    assert jids(jobs) == [(job or {}).get("jid") for job in json.loads(text)]
    assert max(read) <= 2 * long_bulk.PIECE < len(text) / 2


def test_jobs_without_an_id_are_kept_as_one() -> None:
    """Each is refused for that alone, and took forty times its bytes."""
    jobs = commands.jobs_in(b'[{},null,{"queue":"a"},{"jid":""},{"jid":"a"}]')
    assert jids(jobs) == [None, None, None, None, "a"]
    assert len({id(job) for job in jobs}) == 2
