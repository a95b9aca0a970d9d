"""Any bytes give commands or a refusal, and a stream gives the same lines however it is split."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from anew.errors import InvalidJob, MalformedRequest
from anew.fwp.commands import Hello, Push, PushBulk, parse, parse_hello
from anew.fwp.jobs import checked, meta_of, rendered
from anew.fwp.lines import LineSplitter
from tests.property.examples import examples

VERBS = (b"PUSH", b"PUSHB", b"FETCH", b"ACK", b"FAIL", b"BEAT", b"INFO", b"FLUSH", b"END", b"QUEUE", b"MUTATE", b"TRACK SET",
         b"TRACK GET", b"BATCH NEW", b"BATCH OPEN", b"HELLO", b"QUEUE LATENCY", b"")  # fmt: skip
NAMES = ("jid", "jobtype", "args", "queue", "retry", "at", "reserve_for", "custom", "failure", "wid", "cmd", "target", "filter",
         "backtrace", "errtype", "v", "success", "retry_count", "jids", "regexp", "created_at")  # fmt: skip

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["retries", "kill", "job-0001"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)
documents = values.map(lambda value: json.dumps(value).encode())
jobs = st.dictionaries(st.sampled_from(NAMES), values).map(
    lambda more: json.dumps({"jid": "job-0001", "jobtype": "t", "args": []} | more).encode()
)
arguments = st.one_of(documents, jobs, jobs.map(lambda job: b"[" + job + b"]"), st.binary())
lines = st.one_of(
    st.binary(), st.builds(lambda verb, rest: verb + b" " + rest, st.sampled_from(VERBS), arguments)
).map(lambda line: line.replace(b"\n", b""))


@given(line=lines)
@example(line=b'PUSH {"jid":"\\ud800')
@example(line=b"PUSH " + b'{"a":' * 5000)
@example(line=b'PUSH {"retry":' + b"9" * 5000 + b"}")
@settings(max_examples=examples(600), deadline=None)
def test_reliability_43_any_line_is_a_command_or_refused(line: bytes) -> None:
    try:
        command = parse(line, enterprise=True)
    except MalformedRequest:
        return
    pushed = (
        command.jobs if isinstance(command, PushBulk) else [command.job] if isinstance(command, Push) else []
    )
    for job in pushed:
        try:
            fit = checked(job)
        except InvalidJob:
            continue
        meta = meta_of(fit.meta)
        shown = rendered(fit.jid, fit.queue, fit.jobtype, bytes(fit.args), fit.retry, meta, 0, None)
        again = parse(b"PUSH " + shown)
        assert isinstance(again, Push)
        assert checked(again.job).args == fit.args
        assert b"\n" not in shown


@given(rest=st.binary() | documents)
@settings(max_examples=examples(200), deadline=None)
def test_any_first_line_is_a_hello_or_refused(rest: bytes) -> None:
    for line in (rest, b"HELLO " + rest):
        try:
            hello = parse_hello(line)
        except MalformedRequest:
            continue
        assert isinstance(hello, Hello)
        assert line.startswith(b"HELLO {")


@given(
    sent=st.lists(
        st.tuples(lines.map(lambda line: line.rstrip(b"\r")), st.sampled_from([b"\n", b"\r\n"])), max_size=5
    ),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
@settings(max_examples=examples(300), deadline=None)
def test_a_stream_gives_the_same_lines_however_it_is_split(
    sent: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    data = b"".join(line + end for line, end in sent)
    expected = [line for line, _ in sent]
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    some, single = LineSplitter(), LineSplitter()
    assert LineSplitter().feed(data) == expected
    assert [got for a, b in pairwise(places) for got in some.feed(data[a:b])] == expected
    assert [got for at in range(len(data)) for got in single.feed(data[at : at + 1])] == expected
