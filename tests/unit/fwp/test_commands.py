"""Lines to commands, and the exact texts for what is none."""

import pytest

from anew.errors import MalformedRequest
from anew.fwp import long_lines
from anew.fwp.commands import (
    Ack,
    BatchCommit,
    BatchNew,
    BatchOpen,
    Beat,
    Command,
    End,
    FailCommand,
    FetchCommand,
    Flush,
    Hello,
    Info,
    LongLine,
    Mutate,
    Push,
    PushBulk,
    Queue,
    StatusCommand,
    TrackGet,
    TrackSet,
    parse,
    parse_hello,
)
from anew.net.chunks import at_once


def read(line: bytes, *, enterprise: bool = False) -> Command:
    """Read a line to its end, however long it is."""
    command = parse(line, enterprise=enterprise)
    if not isinstance(command, LongLine):
        return command
    found = at_once(long_lines.reading(line))
    if isinstance(found, list):
        return PushBulk([job for piece in found for job in at_once(long_lines.jobs_of(line, piece))])
    return found


def refusal(line: bytes, *, enterprise: bool = False) -> str:
    with pytest.raises(MalformedRequest) as caught:
        read(line, enterprise=enterprise)
    return str(caught.value)


def pushed(line: bytes) -> Push:
    command = parse(line)
    assert isinstance(command, Push)
    return command


# -- HELLO


@pytest.mark.parametrize(
    ("line", "hello"),
    [
        (b'HELLO {"v":2}', Hello(v=2)),
        (b"HELLO {}", Hello()),
        (b'HELLO { "v" : 255 } ', Hello(v=255)),
        (
            b'HELLO {"hostname":"h","wid":"w1","pid":7,"labels":["a",null],"v":2,"pwdhash":"ab","rss_kb":9,"x":[1]}',
            Hello(hostname="h", wid="w1", pid=7, labels=["a", None], v=2, pwdhash="ab", rss_kb=9),
        ),
        (b'HELLO {"wid":null,"pwdhash":null,"username":null,"labels":null,"pid":null}', Hello()),
        (b'HELLO {"hostname":"\xff\\ud800"}', Hello(hostname="\ufffd\ufffd")),
    ],
)
def test_who_says_hello(line: bytes, hello: Hello) -> None:
    """Checklist 3, 12."""
    assert parse_hello(line) == hello


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"PUSH {}",
        b"HELLO{}",
        b"HELLO  {}",
        b"HELLO []",
        b"hello {}",
        b"HELLO",
        b"HELLO {",
        b"HELLO {} x",
        b'HELLO {"pid":"x"}',
        b'HELLO {"v":256}',
        b'HELLO {"v":-1}',
        b'HELLO {"labels":[1]}',
        b'HELLO {"rss_kb":1.5}',
        b'HELLO {"username":1}',
        b'HELLO {"x":NaN}',
        b'HELLO {"x":' + b"[" * 10_000,
    ],
)
def test_who_does_not(line: bytes) -> None:
    """Checklist 4, 5."""
    with pytest.raises(MalformedRequest):
        parse_hello(line)


# -- verbs


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", "unknown command "),
        (b" ", "unknown command "),
        (b" PUSH {}", "unknown command "),
        (b"push {}", "unknown command push"),
        (b'HELLO {"v":2}', "unknown command HELLO"),
        (b"a\tb c", "unknown command a\tb"),
        (b"\xff", "unknown command \ufffd"),
        (b"PUSH", "internal error"),
        (b"PUSHB", "internal error"),
        (b"ACK", "internal error"),
        (b"FAIL", "internal error"),
        (b"BEAT", "internal error"),
        (b"QUEUE", "internal error"),
        (b"QUEUE PAUSE", "internal error"),
        (b"QUEUE REMOVE", "internal error"),
        (b"QUEUE ", "no such QUEUE subcommand: "),
        (b"QUEUE UNPAUSE *", "no such QUEUE subcommand: UNPAUSE"),
        (b"QUEUE foo", "no such QUEUE subcommand: FOO"),
        (b"FETCH", "must call fetch with at least one queue"),
        (b"MUTATE", "invalid format"),
        (b"MUTATE null", "unknown mutate operation"),
        (b'MUTATE {"cmd":"x","target":"y"}', "unknown mutate operation"),
        (b'MUTATE {"cmd":"kill","target":"y"}', "invalid target for mutation command"),
        (b"TRACK", "tracking subsystem is only available in Faktory Enterprise"),
        (b"TRACK GET x", "tracking subsystem is only available in Faktory Enterprise"),
        (b"BATCH", "batch subsystem is only available in Faktory Enterprise"),
        (b"BATCH OPEN b-1", "batch subsystem is only available in Faktory Enterprise"),
        (b"ACK ", "invalid ACK "),
        (b"ACK null", "invalid ACK null"),
        (b'ACK {"x":"y"}', 'invalid ACK {"x":"y"}'),
        (b'ACK {"jid":"abc","x":1}', 'invalid ACK {"jid":"abc","x":1}'),
        (b'ACK {"jid":"a"} x', 'invalid ACK {"jid":"a"} x'),
        (b'ACK {"JID":"a"}', 'invalid ACK {"JID":"a"}'),
        (b"FAIL {", "invalid FAIL {"),
        (b'FAIL {"jid":"a","backtrace":"x"}', 'invalid FAIL {"jid":"a","backtrace":"x"}'),
        (b"FAIL null", "missing JID"),
        (b'FAIL {"jid":""}', "missing JID"),
        (b"BEAT ", "invalid BEAT "),
        (b'BEAT {"wid":"x","rss_kb":1.5}', 'invalid BEAT {"wid":"x","rss_kb":1.5}'),
    ],
)
def test_what_is_no_command_gets_its_text(line: bytes, text: str) -> None:
    """Checklist 13, 14, 19, 38, 50, 53, 76, 86, 93. The texts are the first server's, line by line."""
    assert refusal(line) == text


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"INFO", Info()),
        (b"INFO all", Info()),
        (b"FLUSH", Flush()),
        (b"END", End()),
        (b"FETCH a b", FetchCommand(["a", "b"])),
        (b"FETCH ", FetchCommand([""])),
        (b"FETCH a  b ", FetchCommand(["a", "", "b", ""])),
        (b'ACK {"jid":"abc"}', Ack("abc")),
        (b'ACK {"jid":null,"x":null}', Ack("")),
        (b'BEAT {"wid":"w","current_state":"quiet","rss_kb":5,"x":1}', Beat("w", "quiet", 5)),
        (b"BEAT null", Beat("", "", 0)),
        (b"QUEUE pause x", Queue("PAUSE", ["x"])),
        (b"QUEUE RESUME *", Queue("RESUME", ["*"])),
        (b"QUEUE LATENCY", Queue("LATENCY", [])),
        (b"QUEUE LATENCY a b", Queue("LATENCY", ["a", "b"])),
    ],
)
def test_commands(line: bytes, command: object) -> None:
    """Checklist 76, 78."""
    assert parse(line) == command


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b'FAIL {"jid":"a"}', FailCommand("a", "unknown", "unknown", [])),
        (
            b'FAIL {"jid":"a","errtype":" E\\u2003","message":"\\n","backtrace":["x",null]}',
            FailCommand("a", "E", "unknown", ["x", ""]),
        ),
        (
            b'FAIL {"jid":"a","errtype":"%b","message":"%b"}' % (b"e" * 101, b"m" * 1001),
            FailCommand("a", "e" * 100, "m" * 1000, []),
        ),
        (
            b'FAIL {"jid":"a","errtype":"e%b"}' % ("é" * 60).encode(),
            FailCommand("a", "e" + "é" * 49, "unknown", []),
        ),
        (
            b'FAIL {"jid":"a","backtrace":[%b]}' % b",".join([b'"l"'] * 51),
            FailCommand("a", "unknown", "unknown", ["l"] * 50),
        ),
    ],
)
def test_a_failures_texts_are_trimmed_and_cut(line: bytes, command: FailCommand) -> None:
    """Checklist 58."""
    assert parse(line) == command


def test_a_mutate_has_a_filter_that_may_be_absent() -> None:
    """Checklist 81, 85."""
    for end in (
        b"",
        b',"filter":null',
        b',"filter":{}',
        b',"filter":{"jids":null,"regexp":null,"jobtype":""}',
    ):
        command = parse(b'MUTATE {"cmd":"discard", "target":"retries"%b}' % end)
        assert isinstance(command, Mutate)
        assert (command.action, command.target) == ("discard", "retries")
        assert command.chosen.everything
    command = parse(b'MUTATE {"cmd":"kill","target":"dead","filter":{"jids":["a"],"jobtype":"t"}}')
    assert isinstance(command, Mutate)
    assert (command.chosen.jids, command.chosen.jobtype) == ({"a"}, "t")


# -- PUSH


@pytest.mark.parametrize(
    "argument",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"{} x",
        b'{"jid":123}',
        b'{"args":{}}',
        b'{"args":"x"}',
        b'{"retry":2.5}',
        b'{"retry":"3"}',
        b'{"retry":2.0}',
        b'{"retry":9223372036854775808}',
        b'{"reserve_for":60.0}',
        b'{"custom":[]}',
        b'{"custom":"x"}',
        b'{"failure":[]}',
        b'{"failure":{"retry_count":1.5}}',
        b'{"args":[NaN]}',
        b'{"args":[Infinity]}',
        b'{"args":[1e400]}',
        b'{"args":[-1E+999]}',
        b'{"args":[%b]}' % (b"9" * 400),
        b'{"custom":{"x":[1e400]}}',
        b'{"args":[1,]}',
        b'{"args":[\x0b1]}',
        b'{"args":["\x01"]}',
        b'{"args":%b%b}' % (b"[" * 127, b"]" * 127),
        b'{"args":%b%b}' % (b"[" * 10_000, b"]" * 10_000),
        b'{"x":%b%b}' % (b"[" * 1_000_000, b"]" * 1_000_000),
        b'{"args":%b' % (b"[" * 1_000_000),
    ],
)
def test_a_push_of_no_job_is_invalid(argument: bytes) -> None:
    """Checklist 27."""
    assert refusal(b"PUSH " + argument).startswith("invalid JSON: ")
    assert refusal(b"PUSHB [{}," + argument + b"]").startswith("invalid JSON: ")


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (b"[]", b"[]"),
        (b'[1, "a b" , {"x" : [ ]}\t]', b'[1,"a b",{"x":[]}]'),
        (b"[12345678901234567890123, 1.0, 1e-400, 1E5]", b"[12345678901234567890123,1.0,1e-400,1E5]"),
        (b'["\\ud83d\\ude00\\ud83d"]', b'["\\ud83d\\ude00\\ufffd"]'),
        (b'["\\\\ud800\\udc00"]', b'["\\\\ud800\\ufffd"]'),
        (b'["\xff\xed\xa0\x80"]', '["\ufffd\ufffd\ufffd\ufffd"]'.encode()),
        ('["日本"]'.encode(), '["日本"]'.encode()),
        (b"[" * 100 + b"]" * 100, b"[" * 100 + b"]" * 100),
        (b'["1e400","[[["]', b'["1e400","[[["]'),
    ],
)
def test_arguments_are_kept_as_they_are_and_compact(args: bytes, kept: bytes) -> None:
    """Checklist 29."""
    job = pushed(b'PUSH {"jid":"job-0001","jobtype":"t","args":%b}' % args).job
    assert bytes(job.args) == kept


def test_what_is_unknown_or_null_is_passed_over() -> None:
    """Checklist 28."""
    line = b'PUSH {"jid":"a","jid":"b","priority":5,"blargh":{"x":1e400},"queue":null,"retry":null,"custom":null,"args":null}'
    job = pushed(line).job
    assert job == pushed(b'PUSH {"jid":"b"}').job
    assert (job.queue, job.retry, bytes(job.custom), bytes(job.args)) == (None, None, b"", b"")


def test_null_is_a_job_that_says_nothing() -> None:
    assert pushed(b"PUSH null") == pushed(b"PUSH {}")


@pytest.mark.parametrize(("line", "jobs"), [(b"PUSHB []", 0), (b"PUSHB null", 0), (b"PUSHB [null, {}]", 2)])
def test_a_bulk_may_be_empty(line: bytes, jobs: int) -> None:
    """Checklist 37."""
    command = parse(line)
    assert isinstance(command, PushBulk)
    assert command.jobs == [pushed(b"PUSH {}").job] * jobs


@pytest.mark.parametrize(
    "argument", [b"{}", b'["x"]', b'[{"jid":"a"},{"jid":1}]', b'[{"args":[]},{"args":1}]']
)
def test_a_bulk_with_something_else_in_it_is_invalid(argument: bytes) -> None:
    """Checklist 36."""
    assert refusal(b"PUSHB " + argument).startswith("invalid JSON: ")


@pytest.mark.parametrize("verb", [b"FETCH ", b"QUEUE PAUSE "])
def test_a_megabyte_of_names_is_refused(verb: bytes) -> None:
    """Each of two characters would take some sixty bytes, for as long as the FETCH waits."""
    assert refusal(verb + b"a " * (1 << 19)).startswith("queues are named in at most 65536 bytes, not ")


@pytest.mark.parametrize("verb", ["ACK", "BEAT", "MUTATE", "TRACK", "BATCH"])
def test_a_short_command_of_megabytes_is_refused_unread(verb: str) -> None:
    """A BATCH NEW of 20 MB held everybody up for two seconds."""
    line = f"{verb} ".encode() + b"{" * ((1 << 20) + 1)
    assert refusal(line, enterprise=True) == f"{verb} takes at most 1048576 bytes, not 1048577"


def test_a_bulk_of_ten_megabytes_is_read() -> None:
    """Checklist 16."""
    one = b'{"jid":"job-0001","jobtype":"t","args":["%b"]}' % (b"x" * 10_000)
    command = read(b"PUSHB [" + b",".join([one] * 1000) + b"]")
    assert isinstance(command, PushBulk)
    assert len(command.jobs) == 1000


# -- tracking and batches


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"TRACK GET job-0001", TrackGet("job-0001")),
        (b'TRACK SET {"jid":"a"}', TrackSet("a", None, None, None)),
        (
            b'TRACK SET {"jid":"a","percent":5,"desc":"x","reserve_until":"1970-01-01T00:00:01Z"}',
            TrackSet("a", 5, "x", 1000),
        ),
        (b"BATCH OPEN b-1", BatchOpen("b-1")),
        (b"BATCH COMMIT b-1", BatchCommit("b-1")),
        (b"BATCH STATUS b-1", StatusCommand("b-1")),
    ],
)
def test_tracking_and_batches(line: bytes, command: object) -> None:
    assert parse(line, enterprise=True) == command


def test_a_new_batch_has_a_callback() -> None:
    line = b'BATCH NEW {"parent_bid":"b-0","description":"d","success":{"jobtype":"t","args":[ ]}}'
    command = parse(line, enterprise=True)
    assert isinstance(command, BatchNew)
    assert (command.parent_bid, command.description, command.complete) == ("b-0", "d", None)
    assert command.success is not None
    assert bytes(command.success.args) == b"[]"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"TRACK", "internal error"),
        (b"BATCH", "internal error"),
        (b"TRACK DROP x", "no such TRACK subcommand: DROP"),
        (b"BATCH DROP x", "no such BATCH subcommand: DROP"),
        (b"TRACK SET {}", "missing JID"),
        (b"TRACK GET", "missing JID"),
        (b"TRACK GET ", "missing JID"),
        (b"BATCH NEW {}", "batch must have a success or complete callback"),
    ],
)
def test_tracking_and_batches_refuse(line: bytes, text: str) -> None:
    assert refusal(line, enterprise=True) == text


def test_a_batch_without_its_id_is_one_that_there_is_not() -> None:
    assert parse(b"BATCH STATUS ", enterprise=True) == StatusCommand("")


def test_a_reservation_until_no_time_is_refused() -> None:
    text = refusal(b'TRACK SET {"jid":"a","reserve_until":"soon"}', enterprise=True)
    assert text.startswith("invalid timestamp for 'reserve_until': \"soon\": ")
