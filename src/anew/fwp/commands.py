"""Turns a request line into a command. Total: any bytes give a command, or a `MalformedRequest` with the text of the error.

The texts are the protocol's own, since clients compare some of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta as Bounds
from msgspec import Struct

from anew.errors import InvalidInput, MalformedRequest
from anew.fwp import times
from anew.fwp.globs import JobFilter
from anew.fwp.jobs import I64, SentJob, bad_time, check_form, checking_form
from anew.fwp.json_text import decode, decoding, repaired
from anew.fwp.replies import echoed
from anew.net.chunks import Work, at_once

T = TypeVar("T")
Argument: TypeAlias = bytes | memoryview
U8 = Annotated[int, Bounds(ge=0, le=255)]

LONG: Final = 16_384
"""Bytes of a line from which on its argument is not copied."""

LONG_LINE: Final = 256 << 10
"""Bytes from which on a line is not read in one go: so many take 5 to 10 ms."""

LONG_ARGS: Final = 64 << 10
"""Bytes of a job's args from which on they are checked in chunks where others may have their turn."""

MOST_ERRTYPE_BYTES: Final = 100
MOST_MESSAGE_BYTES: Final = 1000
MOST_BACKTRACE_LINES: Final = 50

MOST_NAMES_BYTES: Final = 64 << 10
"""Of the queues that a FETCH or a QUEUE names: each costs many times its bytes, and a FETCH keeps them while it waits."""

MOST_SHORT_BYTES: Final = 1 << 20
"""Of an argument of a command in `_SHORT`: it is read in one go, and megabytes of it would hold everybody up for seconds."""

PUSH: Final = b"PUSH "
PUSHB: Final = b"PUSHB "
FAIL: Final = b"FAIL "

INTERNAL_ERROR: Final = "internal error"
"""What a verb without its argument gets: the protocol's first server fails at that, and says no more."""
NO_QUEUE: Final = "must call fetch with at least one queue"
NO_JID: Final = "missing JID"
NO_MUTATION: Final = "invalid format"
UNKNOWN_MUTATION: Final = "unknown mutate operation"
UNKNOWN_TARGET: Final = "invalid target for mutation command"
NO_TRACKING: Final = "tracking subsystem is only available in Faktory Enterprise"
NO_BATCHES: Final = "batch subsystem is only available in Faktory Enterprise"
NO_CALLBACK: Final = "batch must have a success or complete callback"

_WHITE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What is trimmed: Unicode's white space, without the separators that `str.strip` takes as well."""


class Hello(Struct, frozen=True):
    """How a client introduces itself; what is absent or null is None.

    Attributes:
        v: The protocol's version that it speaks; never a reason to refuse it.
        pwdhash: See `anew.fwp.password.is_right`.
        wid: Its id, if it is a worker and this is not empty.
        hostname, pid, labels, rss_kb: What it says of itself, for people.
        username: Nobody reads it here, but what it is is checked.
    """

    v: U8 | None = None
    pwdhash: str | None = None
    wid: str | None = None
    hostname: str | None = None
    pid: I64 | None = None
    labels: list[str | None] | None = None
    rss_kb: I64 | None = None
    username: str | None = None


class Push(Struct, frozen=True):
    """One new job; `anew.fwp.jobs.checked` comes next."""

    job: SentJob


class PushBulk(Struct, frozen=True):
    """New jobs, each of which may be refused by itself."""

    jobs: list[SentJob]


class LongLine(Struct, frozen=True):
    """A PUSH, PUSHB or FAIL as it came; `anew.fwp.long_lines` reads it."""

    line: bytes


class FetchCommand(Struct, frozen=True):
    """Asks for a job of the first of these queues that has one; names may be empty."""

    queues: list[str]


class Ack(Struct, frozen=True):
    """A job is done."""

    jid: str


class FailCommand(Struct, frozen=True):
    """A job has failed; the texts are trimmed and cut."""

    jid: str
    errtype: str
    message: str
    backtrace: list[str]


class Beat(Struct, frozen=True):
    """A worker is alive; `state` is what it says of itself, "" if nothing."""

    wid: str
    state: str
    rss_kb: int


class Info(Struct, frozen=True):
    """Asks for the server's figures."""


class Flush(Struct, frozen=True):
    """Deletes all data."""


class End(Struct, frozen=True):
    """Closes the connection."""


class Queue(Struct, frozen=True):
    """Something about queues.

    Attributes:
        action: ``PAUSE``, ``RESUME``, ``REMOVE`` or ``LATENCY``.
        names: As they came; a ``*`` in the first place means all.
    """

    action: str
    names: list[str]


class Mutate(Struct, frozen=True):
    """Changes many jobs at once.

    Attributes:
        action: ``clear``, ``kill``, ``discard`` or ``requeue``.
        target: ``scheduled``, ``retries`` or ``dead``.
        chosen: Which of them; ``clear`` does not look at it.
    """

    action: str
    target: str
    chosen: JobFilter


class TrackSet(Struct, frozen=True):
    """A worker's word about a running job; None is not said.

    Attributes:
        percent: How much is done.
        desc: Text for people.
        reserve_until: Epoch ms.
    """

    jid: str
    percent: int | None
    desc: str | None
    reserve_until: int | None


class TrackGet(Struct, frozen=True):
    """Asks what is known of a job's progress."""

    jid: str


class BatchNew(Struct, frozen=True):
    """Opens a batch with one callback or two; a callback may lack its jid."""

    parent_bid: str
    description: str
    success: SentJob | None
    complete: SentJob | None


class BatchOpen(Struct, frozen=True):
    """Opens a batch again."""

    bid: str


class BatchCommit(Struct, frozen=True):
    """The batch is whole: its callbacks may run."""

    bid: str


class StatusCommand(Struct, frozen=True):
    """Asks how far a batch is."""

    bid: str


Command: TypeAlias = (
    Push | PushBulk | LongLine | FetchCommand | Ack | FailCommand | Beat | Info | Flush | End | Queue | Mutate
    | TrackSet | TrackGet | BatchNew | BatchOpen | BatchCommit | StatusCommand
)  # fmt: skip


_NULL: Final = msgspec.Raw(b"null")


class _Failing(Struct):
    jid: str | None = None
    errtype: str | None = None
    message: str | None = None
    backtrace: msgspec.Raw = _NULL


class _Beating(Struct):
    wid: str | None = None
    current_state: str | None = None
    rss_kb: I64 | None = None


class _Filter(Struct):
    jids: list[str | None] | None = None
    regexp: str | None = None
    jobtype: str | None = None


class _Mutation(Struct):
    cmd: str | None = None
    target: str | None = None
    filter: _Filter | None = None


class _Tracking(Struct):
    jid: str | None = None
    percent: I64 | None = None
    desc: str | None = None
    reserve_until: str | None = None


class _Batch(Struct):
    parent_bid: str | None = None
    description: str | None = None
    success: SentJob | None = None
    complete: SentJob | None = None


_hello = msgspec.json.Decoder(Hello)
_push = msgspec.json.Decoder(SentJob | None)
_push_bulk = msgspec.json.Decoder(list[SentJob | None] | None)
_ack = msgspec.json.Decoder(dict[str, str | None] | None)
_fail = msgspec.json.Decoder(_Failing | None)
_backtrace = msgspec.json.Decoder(list[str | None] | None)
_beat = msgspec.json.Decoder(_Beating | None)
_mutate = msgspec.json.Decoder(_Mutation | None)
_track = msgspec.json.Decoder(_Tracking | None)
_batch = msgspec.json.Decoder(_Batch | None)


def parse_hello(line: bytes) -> Hello:
    """Read the first line of a connection.

    Raises:
        MalformedRequest: It is no HELLO; the connection is closed without an answer.
    """
    if not line.startswith(b"HELLO {"):
        raise MalformedRequest("the first line has to be a HELLO")
    return decode(_hello, repaired(line)[len(b"HELLO ") :])


def parse(line: bytes, *, enterprise: bool = False) -> Command:
    """Read a line of a connection that has said HELLO.

    Args:
        line: Without its terminator.
        enterprise: Tracking and batches are spoken.

    Raises:
        MalformedRequest: The line is no command; the message is the text of the error.
    """
    if len(line) >= LONG:
        return _parse_long(line, enterprise)
    if not line.isascii():
        line = repaired(line)
    verb, space, argument = line.partition(b" ")
    reader = (_ALL_READERS if enterprise else _READERS).get(verb)
    if reader is None:
        return _without_argument(verb)
    if not space:
        raise MalformedRequest(_MISSING.get(verb, INTERNAL_ERROR))
    return reader(argument)


def _parse_long(line: bytes, enterprise: bool) -> Command:
    """Read a line of `LONG` bytes or more."""
    if len(line) > LONG_LINE and line.startswith(_LONG):
        return LongLine(line)
    line = repaired(line)
    end = line.find(b" ")
    verb, argument = line[:end] if end >= 0 else line, memoryview(line)[end + 1 :]
    reader = (_ALL_READERS if enterprise else _READERS).get(verb)
    if reader is None:
        return _without_argument(verb)
    if len(argument) > MOST_SHORT_BYTES and verb in _SHORT:
        raise MalformedRequest(f"{verb.decode()} takes at most {MOST_SHORT_BYTES} bytes, not {len(argument)}")
    return reader(argument)


def _without_argument(verb: bytes) -> Command:
    """Give the command of a verb that looks at no argument."""
    command = _ALONE.get(verb)
    if command is None:
        raise MalformedRequest(_NOT_SPOKEN.get(verb) or f"unknown command {echoed(verb)}")
    return command


def read_push(argument: Argument) -> Push:
    """Read what stands behind the verb PUSH.

    Raises:
        MalformedRequest: It is no job; the message is the text of the error.
    """
    try:
        job = decode(_push, argument) or SentJob()
        check_form(job)
    except MalformedRequest as error:
        raise bad_json(error) from None
    return Push(job)


def reading_push(argument: Argument) -> Work[Push]:
    """Do what `read_push` does, in chunks."""
    try:
        job = (yield from decoding(_push, argument)) or SentJob()
        yield
        yield from checking_form(job)
    except MalformedRequest as error:
        raise bad_json(error) from None
    return Push(job)


def _read_push_bulk(argument: Argument) -> PushBulk:
    try:
        return PushBulk(at_once(reading_jobs(argument)))
    except MalformedRequest as error:
        raise bad_json(error) from None


def reading_jobs(text: Argument) -> Work[list[SentJob]]:
    """Read an array of jobs, long args in chunks.

    Those without a jid are one and the same job, empty.

    Raises:
        MalformedRequest: It is none, or a job has a member of another type; the message is the detail of an ``invalid JSON``.
    """
    jobs = [job or _NO_JOB for job in (yield from decoding(_push_bulk, text)) or ()]
    for job in jobs:
        if len(job.args) > LONG_ARGS:
            yield
            yield from checking_form(job)
        else:
            check_form(job)
    return [job if job.jid else _NO_JOB for job in jobs]


def bad_json(error: MalformedRequest | str) -> MalformedRequest:
    """Word the error about JSON that cannot be read."""
    return MalformedRequest(f"invalid JSON: {error}")


def _read_fetch(argument: Argument) -> FetchCommand:
    return FetchCommand(_words(argument))


def _words(argument: Argument) -> list[str]:
    if len(argument) > MOST_NAMES_BYTES:
        raise MalformedRequest(f"queues are named in at most {MOST_NAMES_BYTES} bytes, not {len(argument)}")
    return str(argument, "utf-8").split(" ")


def _read_ack(argument: Argument) -> Ack:
    jid = (_decode_or_echo(_ack, argument, "ACK") or {}).get("jid", _ABSENT)
    if jid is _ABSENT:
        raise MalformedRequest(f"invalid ACK {echoed(argument)}")
    return Ack(jid or "")


def _decode_or_echo(decoder: msgspec.json.Decoder[T], argument: Argument, verb: str) -> T:
    """Decode the argument of a verb whose error repeats it."""
    try:
        return decode(decoder, argument)
    except MalformedRequest:
        raise MalformedRequest(f"invalid {verb} {echoed(argument)}") from None


def _read_fail(argument: Argument) -> FailCommand:
    return at_once(reading_fail(argument))


def reading_fail(argument: Argument) -> Work[FailCommand]:
    """Read what stands behind the verb FAIL, in chunks; see `parse`."""
    try:
        given = (yield from decoding(_fail, argument)) or _Failing()
        lines = (yield from decoding(_backtrace, _first_lines(bytes(given.backtrace)))) or []
    except MalformedRequest:
        raise MalformedRequest(f"invalid FAIL {echoed(argument)}") from None
    if not given.jid:
        raise MalformedRequest(NO_JID)
    return FailCommand(
        given.jid,
        _tidy(given.errtype, MOST_ERRTYPE_BYTES),
        _tidy(given.message, MOST_MESSAGE_BYTES),
        [line or "" for line in lines[:MOST_BACKTRACE_LINES]],
    )


def _first_lines(backtrace: bytes) -> bytes:
    """Take what nobody reads off a long array of lines: of short ones a mebibyte has a quarter of a million."""
    if len(backtrace) <= LONG_ARGS:
        return backtrace
    at = 1
    for _ in range(MOST_BACKTRACE_LINES):
        line = _LINE.match(backtrace, at)
        if line is None:
            return backtrace
        at = line.end()
    return backtrace[: at - 1] + b"]"


def _tidy(text: str | None, most_bytes: int) -> str:
    """Trim a text and cut it, at a character's end; an empty one becomes ``unknown``."""
    text = (text or "").strip(_WHITE)[:most_bytes] or "unknown"
    return text if text.isascii() else text.encode()[:most_bytes].decode("utf-8", "ignore")


def _read_beat(argument: Argument) -> Beat:
    given = _decode_or_echo(_beat, argument, "BEAT") or _Beating()
    return Beat(given.wid or "", given.current_state or "", given.rss_kb or 0)


def _read_queue(argument: Argument) -> Queue:
    action, *names = _words(argument)
    action = action.upper()
    if action not in _QUEUE_ACTIONS:
        raise MalformedRequest(f"no such QUEUE subcommand: {echoed(action.encode())}")
    if not names and action != "LATENCY":
        raise MalformedRequest(INTERNAL_ERROR)
    return Queue(action, names)


def _read_mutate(argument: Argument) -> Mutate:
    try:
        given = decode(_mutate, argument) or _Mutation()
    except MalformedRequest as error:
        raise bad_json(error) from None
    if given.cmd not in _MUTATIONS:
        raise MalformedRequest(UNKNOWN_MUTATION)
    if given.target not in _TARGETS:
        raise MalformedRequest(UNKNOWN_TARGET)
    chosen = given.filter or _Filter()
    jids = [jid or "" for jid in chosen.jids or ()]
    return Mutate(given.cmd, given.target, JobFilter(jids, chosen.regexp or "", chosen.jobtype or ""))


def _read_track(argument: Argument) -> TrackSet | TrackGet:
    action, _, rest = bytes(argument).partition(b" ")
    if action == b"SET":
        return _read_progress(rest)
    if action == b"GET":
        if not rest:
            raise MalformedRequest(NO_JID)
        return TrackGet(rest.decode())
    raise _bad_action("TRACK", action)


def _read_progress(argument: bytes) -> TrackSet:
    try:
        given = decode(_track, argument) or _Tracking()
    except MalformedRequest as error:
        raise bad_json(error) from None
    if not given.jid:
        raise MalformedRequest(NO_JID)
    until = given.reserve_until
    try:
        reserve_until = times.parse(until) if until else None
    except InvalidInput as error:
        raise MalformedRequest(bad_time("reserve_until", until or "", error)) from None
    return TrackSet(given.jid, given.percent, given.desc, reserve_until)


def _read_batch(argument: Argument) -> BatchNew | BatchOpen | BatchCommit | StatusCommand:
    action, _, rest = bytes(argument).partition(b" ")
    if action == b"NEW":
        return _read_new_batch(rest)
    about = _ABOUT_BATCHES.get(action)
    if about is None:
        raise _bad_action("BATCH", action)
    return about(rest.decode())


def _read_new_batch(argument: bytes) -> BatchNew:
    try:
        given = decode(_batch, argument) or _Batch()
        for job in (given.success, given.complete):
            if job is not None:
                check_form(job)
    except MalformedRequest as error:
        raise bad_json(error) from None
    if given.success is None and given.complete is None:
        raise MalformedRequest(NO_CALLBACK)
    return BatchNew(given.parent_bid or "", given.description or "", given.success, given.complete)


def _bad_action(verb: str, action: bytes) -> MalformedRequest:
    return MalformedRequest(f"no such {verb} subcommand: {echoed(action)}")


_NO_JOB: Final = SentJob()
"""Stands for every job of a bulk that has no jid: it is refused for that, and millions of them fit in a line."""
_LINE: Final = re.compile(rb'[ \t\r\n]*(?:"(?:[^"\\]|\\.)*+"|null)[ \t\r\n]*,', re.DOTALL)
"""A line of a backtrace behind which another one follows."""
_ABSENT: Final = object()
_QUEUE_ACTIONS: Final = frozenset({"PAUSE", "RESUME", "REMOVE", "LATENCY"})
_MUTATIONS: Final = frozenset({"clear", "kill", "discard", "requeue"})
_TARGETS: Final = frozenset({"scheduled", "retries", "dead"})

_ABOUT_BATCHES: Final[dict[bytes, type[BatchOpen | BatchCommit | StatusCommand]]] = {
    b"OPEN": BatchOpen,
    b"COMMIT": BatchCommit,
    b"STATUS": StatusCommand,
}

_READERS: Final[dict[bytes, Callable[[Argument], Command]]] = {
    b"PUSH": read_push,
    b"PUSHB": _read_push_bulk,
    b"FETCH": _read_fetch,
    b"ACK": _read_ack,
    b"FAIL": _read_fail,
    b"BEAT": _read_beat,
    b"QUEUE": _read_queue,
    b"MUTATE": _read_mutate,
}
_ALL_READERS: Final = {**_READERS, b"TRACK": _read_track, b"BATCH": _read_batch}
_ALONE: Final[dict[bytes, Command]] = {b"INFO": Info(), b"FLUSH": Flush(), b"END": End()}
_LONG: Final = (PUSH, PUSHB, FAIL)
_SHORT: Final = frozenset({b"ACK", b"BEAT", b"MUTATE", b"TRACK", b"BATCH"})
"""Verbs whose argument nobody makes long."""
_MISSING: Final = {b"FETCH": NO_QUEUE, b"MUTATE": NO_MUTATION}
"""What verbs without an argument get in place of `INTERNAL_ERROR`."""
_NOT_SPOKEN: Final = {b"TRACK": NO_TRACKING, b"BATCH": NO_BATCHES}
