"""A long line is read as the decoder reads it in one go, wherever it is cut, and others have their turn in between."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anew.errors import MalformedRequest
from anew.fwp import commands, long_lines
from anew.fwp.commands import LONG_LINE, FailCommand, LongLine, Push, PushBulk, parse
from anew.fwp.jobs import SentJob
from anew.net.chunks import Work, at_once

NESTED = [{"jid": "a"}, {"jid": "b", "x": [{"jid": "c"}, {"jid": "d"}]}]
"""Arguments that begin as jobs do."""


def some(count: int, **members: Any) -> list[dict[str, Any]]:
    return [{"jid": f"job-{n:06}", "jobtype": "kind", "args": [n]} | members for n in range(count)]


def jids(jobs: list[SentJob]) -> list[str | None]:
    return [job.jid for job in jobs]


def jobs_in(line: bytes) -> list[SentJob]:
    pieces = at_once(long_lines.reading(line))
    assert isinstance(pieces, list)
    return [job for piece in pieces for job in at_once(long_lines.jobs_of(line, piece))]


def refusal(line: bytes) -> str:
    with pytest.raises(MalformedRequest) as caught:
        at_once(long_lines.reading(line))
    return str(caught.value)


def test_a_line_up_to_a_length_is_read_at_once_and_a_longer_one_later() -> None:
    line = b"PUSHB [" + b" " * (LONG_LINE - len(b"PUSHB []")) + b"]"
    assert parse(line) == PushBulk([])
    assert parse(line + b" ") == LongLine(line + b" ")


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
    monkeypatch.setattr(long_lines, "PIECE", piece)
    text = json.dumps(jobs, separators=separators, ensure_ascii=False).encode()
    at_one = parse(b"PUSHB " + text)
    assert isinstance(at_one, PushBulk)
    assert jobs_in(b"PUSHB " + text) == at_one.jobs
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
        (b'{"x":%b}' % (b"[" * 1_000_000), "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, piece: int, bad: bytes, said: str
) -> None:
    monkeypatch.setattr(long_lines, "PIECE", piece)
    before = json.dumps(some(100))[1:-1].encode()
    for line in (b"PUSHB [%b,%b,%b]" % (before, bad, before), b"PUSHB [%b,%b]" % (before, bad)):
        told = refusal(line)
        assert told.startswith("invalid JSON: ")
        assert said in told or b'"a"}]' in bad
    for cut in (b"PUSHB [" + before, b"PUSHB [" + before + b",", b"PUSHB [" + before[:-1]):
        assert refusal(cut).startswith("invalid JSON: ")


def test_bad_utf_8_is_replaced_in_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_lines, "PIECE", 50)
    line = b"PUSHB [" + b",".join([b'{"jid":"\xff\xc3\\ud800","args":["\xc3"]}'] * 20) + b"]"
    jobs = jobs_in(line)
    assert jids(jobs) == ["\ufffd\ufffd\ufffd"] * 20
    assert bytes(jobs[7].args) == '["\ufffd"]'.encode()


def test_others_have_their_turn_between_pieces() -> None:
    """At least twice in each `PIECE` bytes, also where the arguments of jobs begin as jobs do."""
    for jobs in (some(20_000), some(4_000, args=NESTED)):
        line = b"PUSHB " + json.dumps(jobs).encode()
        assert sum(1 for _ in long_lines.reading(line)) > len(line) / long_lines.PIECE


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

    def reading_jobs(argument: bytes) -> Work[list[SentJob]]:
        read.append(len(argument))
        return commands.reading_jobs(argument)

    monkeypatch.setattr(long_lines, "reading_jobs", reading_jobs)
    jobs = jobs_in(b"PUSHB " + text.encode())
    assert jids(jobs) == [(job or {}).get("jid") for job in json.loads(text)]
    assert max(read) <= 2 * long_lines.PIECE < len(text) / 2


def test_jobs_without_an_id_are_kept_as_one() -> None:
    """Each is refused for that alone, and took forty times its bytes."""
    jobs = at_once(commands.reading_jobs(b'[{},null,{"queue":"a"},{"jid":""},{"jid":"a"}]'))
    assert jids(jobs) == [None, None, None, None, "a"]
    assert len({id(job) for job in jobs}) == 2


LONG_ARGS = {
    "many numbers": "1e100," * 60_000 + "1",
    "space between": "[1, 2], " * 40_000 + "1",
    "one string": '"' + "x" * 300_000 + '"',
    "escapes": '"' + "\\u0041\\/" * 40_000 + '"',
}


@pytest.mark.parametrize("args", LONG_ARGS.values(), ids=LONG_ARGS)
def test_a_long_push_is_the_job_of_a_short_one_and_lets_others_in(args: str) -> None:
    line = b'PUSH {"jid":"job-00001","jobtype":"kind","args":[%b]}' % args.encode()
    assert parse(line) == LongLine(line)
    work = long_lines.reading(line)
    turns = 0
    try:
        while True:
            next(work)
            turns += 1
    except StopIteration as end:
        found = end.value
    assert found == commands.read_push(line[len("PUSH ") :])
    assert bytes(found.job.args) == b"[%b]" % args.replace(", ", ",").encode()
    assert turns >= len(args) // 65_536


@pytest.mark.parametrize("bad", [b"\xff", b"\\ud800"], ids=["bytes", "surrogates"])
@pytest.mark.parametrize("form", [b'PUSH {"jid":"%b"}', b'FAIL {"jid":"%b"}'], ids=["PUSH", "FAIL"])
def test_what_is_no_text_is_replaced_in_a_long_line_while_others_have_their_turn(
    form: bytes, bad: bytes
) -> None:
    line = form % (bad * (300_000 // len(bad)))
    work = long_lines.reading(line)
    turns = 0
    try:
        while True:
            next(work)
            turns += 1
    except StopIteration as end:
        found = end.value
    assert turns >= 4
    assert set(found.job.jid if isinstance(found, Push) else found.jid) == {"\ufffd"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'PUSH {"jid":%b}', "invalid JSON: Expected `str | null`, got `array` - at `$.jid`"),
        (b'PUSH {"args":[1e999,%b]}', "invalid JSON: args: number out of range; expected one below 1.8e308"),
        (b"PUSH [%b", "invalid JSON: Expected `object | null`, got `array`"),
        (b'FAIL {"jid":[%b]}', "invalid FAIL "),
        (b'FAIL {"errtype":"%b"}', "missing JID"),
    ],
)
def test_a_long_line_that_does_not_fit_is_refused_as_a_short_one(line: bytes, reason: str) -> None:
    filler = b"x" * 300_000 if b'"%b"' in line else b"[" + b"1," * 150_000 + b"1]"
    assert refusal(line % filler).startswith(reason)


def test_of_a_long_backtrace_the_lines_that_are_kept_are_read() -> None:
    lines = ["a,b", '"', "", "\\", "[", None, *(f"line {n}" for n in range(300_000))]
    for form in (json.dumps(lines), json.dumps(lines, separators=(",", ":"))):
        found = at_once(long_lines.reading(b'FAIL {"jid":"job-00001","backtrace":%b}' % form.encode()))
        assert isinstance(found, FailCommand)
        assert found.backtrace == [line or "" for line in lines[:50]]


def test_few_long_lines_of_a_backtrace_are_kept_whole() -> None:
    lines = ["x" * 100_000, "é" * 100_000, "z" * 100_000]
    line = b'FAIL {"jid":"job-00001","backtrace":%b}' % json.dumps(lines).encode()
    found = at_once(long_lines.reading(line))
    assert isinstance(found, FailCommand)
    assert found.backtrace == lines


def test_a_long_job_in_a_bulk_keeps_nobody_waiting() -> None:
    jobs = b'{"jid":"job-00001","args":[%b]}' % LONG_ARGS["many numbers"].encode()
    assert sum(1 for _ in long_lines.reading(b"PUSHB [%b,%b]" % (jobs, jobs))) >= 2 * len(jobs) // 65_536
