"""The scripted dialogues, in the checklist's order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .dialogue import Dialogue, ack, again, compact, fail, job, mutate, push

LATER = "2099-01-02T03:04:05Z"
PAST = "2001-02-03T04:05:06Z"

EXACT = "Faktory keeps numbers as 64-bit floats, Anew as they were written"
NAME_CHECKED = "Faktory checks the queue of a job for later only when it is due, and then loses the job"
BOUNDED = "Anew bounds the bytes of a jid"
SPACES = "Faktory refuses a space within MUTATE's JSON"
QUIET = "Faktory looks at the state of the connection that registered the worker only"


def _d(name: str, numbers: int | tuple[int, ...], *steps: str, **rest: Any) -> Dialogue:
    return Dialogue(
        name=name, numbers=numbers if isinstance(numbers, tuple) else (numbers,), steps=steps, **rest
    )


def _sentinel() -> tuple[str, str]:
    """A job that is surely stored, and a FETCH: it brings the job before it, if that was stored too."""
    return push("@9", args=["sentinel"]), "FETCH @q"


def _handshake() -> Iterator[Dialogue]:
    yield _d("greeting", 1, "1?")
    lf = '1<< HELLO {"v":2}\\n'
    yield _d("hello ended by LF", 3, "1?", lf, "1>", "FETCH")
    yield _d(
        "hello in three packets", 3, "1?", "1<< HEL", "~0.05", '1<< LO {"v"', "~0.05", "1<< :2}\\r\\n", "1>"
    )
    for first in (
        "",
        "HELLO",
        "HELLO{}",
        "HELLO  {}",
        "HELLO []",
        "hello {}",
        "PING",
        "INFO",
        "GET / HTTP/1.1",
        "HELLO {",
        "HELLO {} x",
    ):
        yield _d(
            f"first line {first!r}", (4, 5), f"1? {first}" if first else "1?", *([] if first else ["1: "])
        )
    wrong = (
        '"v":"2"',
        '"v":-1',
        '"v":256',
        '"v":1.5',
        '"wid":5',
        '"hostname":1',
        '"pid":"x"',
        '"pid":1.5',
        '"labels":"a"',
        '"labels":[1]',
        '"labels":{}',
        '"pwdhash":1',
        '"username":[]',
        '"rss_kb":"1"',
    )
    for field in wrong:
        yield _d(f"hello with {field}", 5, f"1? HELLO {{{field}}}")
    good = (
        "",
        '"v":0',
        '"v":1',
        '"v":3',
        '"v":255',
        '"v": 2',
        '"v":2,"wid":null,"pwdhash":null,"username":null',
        '"labels":null',
    )
    for field in (
        *good,
        '"v":2,"strange":{"a":[1]}',
        '"pwdhash":"00"',
        '"v":2,"wid":"","pid":0,"rss_kb":-1,"labels":["ä"]',
    ):
        yield _d(f"hello that is good: {field}", (11, 12), f"1? HELLO {{{field}}}", push(), "FETCH @q")
    yield _d("silence instead of hello", 6, "1?", "~2.5", "1>")
    for number, name, line in (
        (8, "iterated hash", '1# i {"v":2,"pwdhash":"HASH"}'),
        (9, "one round without version", '1# 1 {"pwdhash":"HASH"}'),
        (9, "one round with version 1", '1# 1 {"v":1,"pwdhash":"HASH"}'),
        (9, "one round with version 2", '1# 1 {"v":2,"pwdhash":"HASH"}'),
        (9, "iterated hash without version", '1# i {"pwdhash":"HASH"}'),
        (10, "wrong hash", '1? HELLO {"v":2,"pwdhash":"00"}'),
        (10, "no hash", '1? HELLO {"v":2}'),
        (10, "empty hash", '1? HELLO {"v":2,"pwdhash":""}'),
        (8, "hash in upper case", '1# i {"v":2,"pwdhash":"HASHA"}'),
    ):
        yield _d(f"password: {name}", number, line, "1: FETCH", locked=True)
    yield _d("password: greeting", 2, "1?", "2?", locked=True)


def _framing() -> Iterator[Dialogue]:
    for line in (
        "push {}",
        "",
        " PUSH {}",
        "PING",
        "Fetch x",
        "INFOX",
        "HELLO {}",
        'HELLO {"v":2}',
        "PUSH\\t{}",
        "QUIT now",
        "é",
    ):
        yield _d(f"unknown verb {line!r}", (13, 14), f"1: {line}", "FETCH")
    for verb in (
        "PUSH",
        "PUSHB",
        "ACK",
        "FAIL",
        "BEAT",
        "MUTATE",
        "QUEUE",
        "FETCH",
        "QUEUE PAUSE",
        "QUEUE REMOVE",
        "QUEUE LATENCY",
    ):
        yield _d(f"{verb} alone", (19, 38, 86), f"1: {verb}", push(), "FETCH @q")
        yield _d(f"{verb} and a space", 19, f"1: {verb} ", push(), "FETCH @q")
    for verb in ("TRACK", "BATCH", "TRACK GET x", "BATCH NEW {}", "BATCH STATUS b-x", "TRACK SET {}"):
        yield _d(f"{verb} of the paid edition", 93, f"1: {verb}", "FETCH")
    ten = "".join(f"PUSH {job(f'@{n}', args=[n])}\\r\\n" for n in range(1, 6)) + "FETCH @q\\r\\n" * 5
    yield _d("ten commands in one packet", 15, "1: FETCH", f"1<< {ten}", *["1>"] * 10)
    yield _d("commands ended by LF", 3, "1: FETCH", f"1<< PUSH {job()}\\nFETCH @q\\n", "1>", "1>")
    yield _d(
        "a command in pieces",
        15,
        "1: FETCH",
        f"1<< PUSH {job()}"[:30],
        "~0.05",
        "1<< " + f"PUSH {job()}"[26:],
        "1<< \\r",
        "~0.05",
        "1<< \\n",
        "1>",
    )
    yield _d("end", 17, "1: FETCH", "1: END")
    yield _d("end with an argument", 17, "1: FETCH", "1: END now")
    yield _d(
        "commands after end",
        17,
        "1: FETCH",
        f"1<< END\\r\\nPUSH {job()}\\r\\n",
        "1>",
        "2: " + push("@9", args=[9]),
        "2: FETCH @q",
    )
    yield _d(
        "a bulk of non-ASCII text",
        20,
        push(args=["zwölf €", "𝄞", "日本"], custom={"ключ": "ü"}),
        "FETCH @q",
        "FETCH",
    )
    big = "[" + ",".join(job(f"@1-{n}", args=["x" * 10_000]) for n in range(1000)) + "]"
    yield _d("PUSHB of 10 MB", 16, "PUSHB " + big, "FETCH @q", "QUEUE REMOVE @q")
    yield _d(
        "bad UTF-8 in an argument",
        27,
        "1: FETCH",
        '1<< PUSH {"jid":"@1","jobtype":"k","queue":"@q","args":["\\xff\\xc3"]}\\r\\n',
        "1>",
        "FETCH @q",
    )


def _fields() -> Iterator[Dialogue]:
    """Every field of a job with every kind of value."""
    kinds = (None, True, 5, -5, 0, 2.5, "", "text", [], ["a"], {}, {"a": 1})
    for field in (
        "jid",
        "jobtype",
        "args",
        "queue",
        "at",
        "reserve_for",
        "retry",
        "backtrace",
        "created_at",
        "enqueued_at",
        "custom",
        "failure",
        "priority",
        "strange",
    ):
        for value in kinds:
            if (field, value) in (("queue", ""), ("queue", None), ("queue", "text")):
                continue
            jid = {"jid": value} if field == "jid" else {}
            steps = (push(**({"jid": "@1"} | jid | {field: value})), *_sentinel())
            yield _d(f"{field} is {compact(value)}", (22, 24, 27, 28), *steps)
        if field != "queue":
            jid = {"jid": ...} if field == "jid" else {}
            yield _d(
                f"{field} is absent", (22, 23, 24), push(**({"jid": "@1"} | jid | {field: ...})), *_sentinel()
            )
    for jid in ("1234567", "12345678", "éééé", "ééé", "ééé1", "a b c d e", "x" * 512, 'quote"and\\\\'):
        yield _d(f"jid {jid[:20]}", 23, push(jid), *_sentinel())
    yield _d("jid of 513 bytes", 23, push("x" * 513), *_sentinel(), differs=BOUNDED)
    for value in (1, 59, 60, 1800, 86400, 86401, 10**18, 10**19):
        yield _d(f"reserve_for {value}", 25, push(reserve_for=value), *_sentinel())
    for text in ("60.0", "1e2", "6e1", "060", "+60", "0x10", "-0", '"60"'):
        whole = job(reserve_for="HERE").replace('"HERE"', text)
        yield _d(f"reserve_for written {text}", 27, f"PUSH {whole}", *_sentinel())
        whole = job(retry="HERE").replace('"HERE"', text)
        yield _d(f"retry written {text}", 27, f"PUSH {whole}", *_sentinel())
    yield _d("queue is absent", 22, push(queue=...), "FETCH default")
    yield _d("queue is null", 22, push(queue=None), "FETCH default", "INFO")
    yield _d("queue is empty", 22, push(queue=""), "FETCH default", "INFO")
    yield _d("same jid twice", 33, push(args=[1]), push(args=[2]), "FETCH @q", "FETCH @q")
    yield _d("created_at is kept", 22, push(created_at="long ago"), "FETCH @q")
    yield _d(
        "all fields",
        (28, 29, 47),
        push(
            args=[1, [2, {"a": None}]],
            at=PAST,
            reserve_for=90,
            backtrace=7,
            created_at=PAST,
            custom={"a": {"b": []}},
            priority=9,
        ),
        "FETCH @q",
    )


def _names() -> Iterator[Dialogue]:
    names = (
        "a b",
        "c&c",
        "a/b",
        "ü",
        "a\tb",
        "a\u0000b",
        "q:x",
        "a\nb",
        "a\\b",
        'a"b',
        "*",
        "@q*",
        " @q",
        "@q ",
        "a,b",
        "a\u007fb",
        "\u2028",
    )
    for name in names:
        yield _d(f"queue name {name!r}", 26, push(queue=name), *_sentinel())
    for name in ("@q.X_-9", "@q-", "@q__..", "@q" + "n" * 300):
        yield _d(f"queue name {name[:20]!r}", 26, push(queue=name), f"FETCH {name}")
    yield _d("bad queue of a job for later", 26, push(queue="a b", at=LATER), differs=NAME_CHECKED)


def _times() -> Iterator[Dialogue]:
    good = (
        PAST,
        "2001-02-03T04:05:06.123456789+00:00",
        "2001-02-03T04:05:06+05:30",
        "2001-02-03T04:05:06-23:59",
        "2000-02-29T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "2001-02-03T04:05:06.1Z",
        "2001-02-03T04:05:06." + "1" * 30 + "Z",
    )
    bad = (
        "2001-02-03t04:05:06Z",
        "2001-02-03T04:05:06z",
        "2001-02-03T04:05:06",
        "2001-02-03T04:05:06+0100",
        "2001-02-03 04:05:06Z",
        "2001-02-03",
        "1700000000",
        "2001-02-03T04:05:60Z",
        "2001-02-03T24:00:00Z",
        "2001-13-03T04:05:06Z",
        "2001-02-30T04:05:06Z",
        "2001-02-29T00:00:00Z",
        "2001-02-03T04:05Z",
        "2001-02-03T04:05:06.Z",
        " 2001-02-03T04:05:06Z",
        "2001-02-03T04:05:06Z ",
        "01-02-03T04:05:06Z",
        "12001-02-03T04:05:06Z",
        "2001-02-03T04:05:06+01",
        "2001-02-03T04:60:06Z",
        "now",
        'a"b\\c',
        "tab\there",
        "2001-2-3T04:05:06Z",
        "2001-02-00T04:05:06Z",
        "2001-02-03T04:05:06Z+00:00",
    )
    for text in (*good, *bad):
        yield _d(f"at {text[:40]!r}", (31, 32), push(at=text), *_sentinel())
        yield _d(f"at {text[:40]!r} in bulk", (32, 35), f"PUSHB [{job(at=text)}]", *_sentinel())
    for text in (
        LATER,
        "2099-01-02T03:04:05.000000001+00:00",
        "9999-12-31T23:59:59Z",
        "2099-01-02T03:04:05-12:00",
    ):
        yield _d(
            f"later {text}",
            30,
            push(at=text, custom={"a": 1}),
            "QUEUE LATENCY @q",
            again("scheduled"),
            "FETCH @q",
        )
    yield _d("later is counted", 30, push(at=LATER), "INFO", mutate("clear", "scheduled"), "INFO")
    yield _d("a due job is in its queue within 6 s", 60, push(at="2001-02-03T04:05:06Z"), "FETCH @q", ack())


def _json() -> Iterator[Dialogue]:
    bad = (
        "x",
        "[",
        "[]",
        "null",
        "5",
        '"x"',
        "{",
        "}",
        "{}{}",
        "{} x",
        "{'jid':1}",
        "{jid:1}",
        "",
        " ",
        "true",
        "\\ufeff{}",
        '{"a":01}',
        '{"a":.5}',
        '{"a":1.}',
        '{"a":+1}',
        '{"a":"\\x"}',
        '{"a":"\\u12"}',
        '{"a":tru}',
        '{"a":nulL}',
        '{"a" 1}',
        '{"a":1 "b":2}',
        "{,}",
        '{"a":[1,]}',
    )
    for text in bad:
        yield _d(f"PUSH {text}", (27, 36), f"PUSH {text}", f"PUSHB [{text}]", *_sentinel())
    whole = job(args=["HERE"])
    for text in (
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "0x1",
        "'a'",
        "undefined",
        "1_000",
        "/**/1",
        "\x01",
    ):
        yield _d(f"an argument written {text!r}", 27, "PUSH " + whole.replace('"HERE"', text), *_sentinel())
    for text in (
        '"\x01"',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"\\/"',
        '"<>&\\u2028"',
        '"\x7f"',
        "0.1",
        "-1",
        "1E2",
        "1e2",
    ):
        differs = EXACT if "2" in text and "e" in text.lower() and "u" not in text else ""
        yield _d(
            f"an argument written {text!r}",
            (27, 29),
            "PUSH " + whole.replace('"HERE"', text),
            *_sentinel(),
            differs=differs,
        )
    for text in (
        "9007199254740993",
        "1.0",
        "-0",
        "123456789012345678901234567890",
        "1e-400",
        "3.141592653589793238462643",
    ):
        yield _d(
            f"an argument that is {text}",
            29,
            "PUSH " + whole.replace('"HERE"', text),
            *_sentinel(),
            differs=EXACT,
        )
    for depth in (100, 500):
        yield _d(
            f"arguments {depth} deep",
            29,
            "PUSH " + whole.replace('"HERE"', "[" * depth + "]" * depth),
            *_sentinel(),
            differs="" if depth == 100 else "Anew takes 126 levels",
        )
    yield _d(
        "arguments 20000 deep", 27, "PUSH " + whole.replace('"HERE"', "[" * 20000 + "]" * 20000), *_sentinel()
    )
    yield _d("a key twice", 27, "PUSH " + job().replace('"args":[]', '"args":[1],"args":[2]'), *_sentinel())
    yield _d(
        "spaces everywhere", 22, "PUSH  " + job().replace(",", " , ").replace(":", " : ") + "  ", *_sentinel()
    )
    yield _d("tabs around", 22, "PUSH \t" + job() + "\t", *_sentinel())


def _bulk() -> Iterator[Dialogue]:
    three = ",".join(job(f"@{n}", args=[n]) for n in (1, 2, 3))
    yield _d("bulk keeps the order", 34, f"PUSHB [{three}]", *["FETCH @q"] * 3)
    for text in (
        "[]",
        "null",
        "{}",
        "5",
        '""',
        "[null]",
        "[null,null]",
        "[5]",
        '["x"]',
        "[[]]",
        "[{}]",
        "[{},{}]",
    ):
        yield _d(f"PUSHB {text}", (36, 37), f"PUSHB {text}", *_sentinel())
        yield _d(f"PUSHB of a good job and {text}", 36, f"PUSHB [{job()},{text}]", *_sentinel())
    mixed = (
        job("short"),
        job("@2", jobtype=""),
        job("@3", args=...),
        job("@4", reserve_for=86401),
        job("@5", queue="a b"),
        job("@6", at="x"),
        job("@7"),
    )
    yield _d("bulk with one of each fault", 35, f"PUSHB [{','.join(mixed)}]", *_sentinel())
    yield _d(
        "bulk with faults of one jid",
        35,
        f"PUSHB [{job('@1', args=None)},{job('@1', jobtype='')},{job('@2')}]",
        *_sentinel(),
    )
    yield _d(
        "bulk for later and now",
        (30, 34),
        f"PUSHB [{job(at=LATER)},{job('@2')}]",
        "FETCH @q",
        again("scheduled"),
        "FETCH @q",
    )
    yield _d("bulk with two queues", 34, f"PUSHB [{job()},{job('@2', queue='@r')}]", "FETCH @r", "FETCH @q")
    yield _d(
        "bulk with a wrong type stores nothing", 36, f"PUSHB [{job()},{job('@2', args=5)}]", *_sentinel()
    )
    yield _d(
        "bulk with retries", 34, f"PUSHB [{job(retry=3)},{job('@2', retry=0)},{job('@3')}]", *["FETCH @q"] * 3
    )


def _fetch() -> Iterator[Dialogue]:
    yield _d("an empty queue", (39, 44), "FETCH @q")
    yield _d("two empty queues", 39, "FETCH @q @r")
    yield _d("a queue with a bad name", 39, "FETCH a/b")
    yield _d("an empty name", 39, "1: FETCH  ", "1: FETCH @q ")
    yield _d(
        "the first queue first", 40, push("@1", queue="@r"), push("@2"), push("@3"), *["FETCH @q @r"] * 3
    )
    yield _d(
        "the first queue first, the other way", 40, push("@1", queue="@r"), push("@2"), *["FETCH @r @q"] * 2
    )
    yield _d("names among spaces", 40, push(), "FETCH   @r   @q")
    yield _d("a name twice", 40, push(), "FETCH @q @q")
    yield _d("a push wakes", 41, "1< FETCH @q @r", "~0.2", "2: " + push(queue="@r"), "1>")
    yield _d(
        "a bulk push wakes", 41, "1< FETCH @q", "~0.2", f"2: PUSHB [{job()},{job('@2')}]", "1>", "FETCH @q"
    )
    yield _d(
        "the earlier fetcher is served",
        42,
        "1< FETCH @q",
        "~0.3",
        "2< FETCH @q",
        "~0.3",
        "3: " + push("@1", args=[1]),
        "1>",
        "3: " + push("@2", args=[2]),
        "2>",
    )
    yield _d("no role is needed", 43, push(), "2: FETCH @q", "3: " + fail(), again(), "FETCH @q", ack())
    yield _d("an unknown queue stays unknown", 44, "FETCH @r", "INFO")
    yield _d(
        "paused", (45, 75), push(), "QUEUE PAUSE @q", "FETCH @q", "FETCH @r @q", "QUEUE RESUME @q", "FETCH @q"
    )
    yield _d(
        "paused beside another",
        45,
        push(),
        push("@2", queue="@r"),
        "QUEUE PAUSE @q",
        "FETCH @q @r",
        "FETCH @q @r",
        "QUEUE RESUME @q",
        "FETCH @q",
    )
    yield _d(
        "push to a paused queue",
        45,
        push(),
        "QUEUE PAUSE @q",
        push("@2"),
        "QUEUE LATENCY @q",
        "QUEUE RESUME @q",
        "FETCH @q",
        "FETCH @q",
    )
    yield _d("a fetched job is counted", 46, push(), "INFO", "FETCH @q", "INFO", ack(), "INFO")
    yield _d(
        "fetched by a worker", (46, 72), '1? HELLO {"v":2,"wid":"@w"}', push(), "FETCH @q", "INFO", ack()
    )


def _verdicts() -> Iterator[Dialogue]:
    yield _d("ack", 48, push(), "FETCH @q", ack(), "INFO", ack(), "INFO")
    yield _d("ack of a jid never seen", 49, ack("@7"), "INFO")
    yield _d("ack of a job that waits", 49, push(), ack(), "FETCH @q", ack())
    for text in (
        "{}",
        '{"jid":5}',
        '{"jid":null}',
        '{"jid":""}',
        '{"x":"y"}',
        '{"jid":"@1","x":5}',
        '{"jid":"@1","x":"y"}',
        "5",
        "null",
        "[]",
        "x",
        '"@1"',
        '{"JID":"@1"}',
        '{"jid":"@1"} x',
        "{",
        '{"jid":["a"]}',
        '{"jid":"@1","jid":"@2"}',
    ):
        yield _d(f"ACK {text}", 50, push(), "FETCH @q", f"ACK {text}", fail())
        yield _d(
            f"FAIL {text}",
            (52, 53),
            push(),
            "FETCH @q",
            f"FAIL {text}",
            fail(),
            differs="Anew compares the names of members exactly" if "JID" in text else "",
        )
    yield _d("ack with spaces in its JSON", 48, push(), "FETCH @q", 'ACK { "jid" : "@1" } ', fail())
    yield _d("ack from another connection", 51, push(), "FETCH @q", "2: " + ack(), "3: " + ack())
    yield _d("ack after the fetcher has gone", (51, 71), push(), "2: FETCH @q", "2!", ack(), fail())
    yield _d("fail", (52, 54), push(), "FETCH @q", fail(), "INFO", again(), "FETCH @q", ack(), "INFO")
    yield _d(
        "fail twice",
        56,
        push(),
        "FETCH @q",
        fail(message="one"),
        again(),
        "FETCH @q",
        fail(errtype="F", message="two", backtrace=["x"]),
        again(),
        "FETCH @q",
        "INFO",
    )
    yield _d("fail thrice in a row", 53, push(), "FETCH @q", fail(), fail(), fail("@7"))
    fields: tuple[tuple[str, Any], ...] = (
        *(("errtype", value) for value in ("", " x ", "\tx\n", "e" * 101, "e" * 100, None, 5, [], " ")),
        *(
            ("message", value)
            for value in ("", " x ", "m" * 1001, "m" * 1000, None, 5, {}, "two\nlines", " ")
        ),
        *(
            ("backtrace", value)
            for value in (
                None,
                [],
                ["a"],
                ["a"] * 51,
                [str(n) for n in range(60)],
                "x",
                [5],
                {},
                [""],
                [None],
            )
        ),
        *(("strange", value) for value in (5, {"a": 1})),
    )
    for field, value in fields:
        yield _d(
            f"fail with {field} {compact(value)[:30]} {len(str(value))}",
            (54, 58),
            push(),
            "FETCH @q",
            fail(**{field: value}),
            again(),
            "FETCH @q",
            ack(),
        )
    yield _d("fail with nothing but a jid", 58, push(), "FETCH @q", 'FAIL {"jid":"@1"}', again(), "FETCH @q")
    yield _d(
        "errtype is cut at 100 bytes of ASCII and more",
        58,
        push(),
        "FETCH @q",
        fail(errtype="é" * 60),
        again(),
        differs="Anew cuts between characters",
    )
    for retry in (0, 1, 2, -1, -7, 25):
        rounds = (
            push(retry=retry),
            "FETCH @q",
            fail(),
            "INFO",
            again(),
            again("dead"),
            push("@9", args=["sentinel"], retry=25),  # Faktory takes the last PUSH's retry for its default
            "FETCH @q",
            fail("@1"),
            ack("@9"),
            "INFO",
            mutate("clear", "retries"),
            mutate("clear", "dead"),
        )
        yield _d(f"retry {retry} fails", 57, *rounds)
    yield _d(
        "retry 1 fails twice",
        57,
        push(retry=1),
        "FETCH @q",
        fail(),
        again(),
        "FETCH @q",
        fail(),
        "INFO",
        again("dead"),
        "FETCH @q",
        fail(),
        "INFO",
    )
    yield _d(
        "the job's own backtrace has no effect",
        58,
        push(backtrace=2),
        "FETCH @q",
        fail(backtrace=["a", "b", "c"]),
        again(),
        "FETCH @q",
    )
    for failure in (
        {"retry_count": 3, "remaining": 4, "failed_at": PAST},
        {"retry_count": 24},
        {"message": "old", "errtype": "O", "backtrace": ["z"], "next_at": PAST},
        {"strange": 1},
    ):
        yield _d(
            f"a failure of the client's own {compact(failure)}",
            56,
            push(failure=failure),
            "FETCH @q",
            fail(),
            again(),
            "FETCH @q",
            again("dead"),
        )
    for failure in ({"retry_count": "3"}, {"failed_at": 5}, {"backtrace": "x"}, {"remaining": 1.5}, "x"):
        yield _d(f"a failure of wrong types {compact(failure)}", 27, push(failure=failure), *_sentinel())
    yield _d(
        "two jobs, verdicts crossed",
        (48, 52),
        push(),
        push("@2"),
        "FETCH @q",
        "FETCH @q",
        fail("@2"),
        ack(),
        fail(),
        again("retries", "@2"),
        "FETCH @q",
    )


def _reservations() -> Iterator[Dialogue]:
    yield _d(
        "a retry comes back by itself", 59, push(), "FETCH @q", fail(), "~50", "FETCH @q", ack(), slow=True
    )
    for value in (60, 1):
        steps = (push(reserve_for=value), "FETCH @q", "~79", fail(), ack(), again(), "FETCH @q", ack())
        yield _d(f"a reservation of {value} s expires", (61, 62, 64), *steps, slow=True)
    yield _d("an absent reserve_for does not expire", 62, push(), "FETCH @q", "~79", fail(), slow=True)
    beat = 'BEAT {"wid":"@w"}'
    yield _d(
        "a silent worker is dropped",
        70,
        '1? HELLO {"v":2,"wid":"@w"}',
        "2: FETCH",
        "~79",
        "2: " + beat,
        "1: FETCH",
        "2: FETCH",
        slow=True,
    )


def _workers() -> Iterator[Dialogue]:
    worker = '1? HELLO {"v":2,"wid":"@w","hostname":"h","pid":7,"labels":["a"]}'
    beat = 'BEAT {"wid":"@w"}'
    yield _d("beat", 66, worker, beat, "2: " + beat, "1!", "~0.3", "2: " + beat)
    for text in (
        "{}",
        '{"wid":""}',
        '{"wid":"nobody"}',
        '{"wid":5}',
        "5",
        "null",
        "x",
        "[]",
        '{"wid":"@w","rss_kb":5}',
        '{"wid":"@w","rss_kb":"5"}',
        '{"wid":"@w","rss_kb":5.5}',
        '{"wid":"@w","current_state":5}',
        '{"wid":"@w","current_state":null}',
        '{"wid":"@w","strange":1}',
        '{ "wid" : "@w" }',
    ):
        yield _d(f"BEAT {text}", 66, worker, f"BEAT {text}", beat)
    for states in (
        ("quiet",),
        ("terminate",),
        ("quiet", "terminate"),
        ("terminate", "quiet"),
        ("quiet", "running"),
        ("quiet", ""),
        ("running",),
        ("", "quiet"),
        ("strange",),
        ("quiet", "strange"),
        ("Quiet",),
    ):
        said = [f'BEAT {{"wid":"@w","current_state":"{state}"}}' for state in states]
        yield _d(f"states {states}", (67, 68), worker, *said, beat, beat)
    yield _d(
        "a quiet worker gets nothing",
        69,
        worker,
        push(),
        'BEAT {"wid":"@w","current_state":"quiet"}',
        "FETCH @q",
        "2: FETCH @q",
        "1: " + ack(),
    )
    yield _d(
        "a quiet worker pushes and gives verdicts",
        69,
        worker,
        push(),
        "FETCH @q",
        'BEAT {"wid":"@w","current_state":"terminate"}',
        push("@2"),
        ack(),
        "QUEUE LATENCY @r",
        "FETCH",
        differs="Faktory has a quiet worker wait before it looks at what is asked for",
    )
    yield _d(
        "other connections of a quiet worker",
        69,
        worker,
        '2? HELLO {"v":2,"wid":"@w"}',
        push(),
        'BEAT {"wid":"@w","current_state":"quiet"}',
        "2: FETCH @q",
        differs=QUIET,
    )
    yield _d(
        "workers are counted",
        (71, 72),
        worker,
        '2? HELLO {"v":2,"wid":"@w"}',
        "3: INFO",
        "1!",
        "~0.3",
        "3: INFO",
        "2!",
        "~0.3",
        "3: INFO",
    )
    yield _d(
        "a worker leaves with a job",
        71,
        worker,
        push(),
        "FETCH @q",
        "1!",
        "~0.3",
        "3: INFO",
        "3: " + ack(),
        "3: INFO",
    )
    yield _d("a worker that ends", (17, 71), worker, "1: END", "~0.3", "3: INFO")


def _queues() -> Iterator[Dialogue]:
    yield _d(
        "info",
        (73, 74),
        "INFO",
        push(),
        push("@2", queue="@r"),
        push("@3"),
        "INFO",
        "FETCH @r",
        ack("@2"),
        "INFO",
    )
    yield _d("info with words", 73, "INFO all of it")
    yield _d("pause before there is a queue", 75, "QUEUE PAUSE @q", push(), "FETCH @q")
    for sub in (
        "pause",
        "Pause",
        "resume",
        "remove",
        "latency",
        "UNPAUSE",
        "unpause",
        "LIST",
        "PAUSED",
        "é",
        "*",
    ):
        yield _d(f"QUEUE {sub} of one name", 76, push(), f"QUEUE {sub} @q", "QUEUE RESUME @q", *_sentinel())
    for sub in ("PAUSE", "RESUME", "REMOVE", "UNPAUSE"):
        yield _d(
            f"QUEUE {sub} *",
            (76, 78),
            push(),
            push("@2", queue="@r"),
            "QUEUE PAUSE @r",
            f"QUEUE {sub} *",
            "INFO",
            "FETCH @q @r",
            "FETCH @q @r",
        )
        yield _d(
            f"QUEUE {sub} of two",
            (75, 77),
            push(),
            push("@2", queue="@r"),
            f"QUEUE {sub} @q @r",
            "FETCH @q @r",
            "QUEUE RESUME @q @r",
        )
        yield _d(f"QUEUE {sub} of strange names", 75, push(), f"QUEUE {sub} a/b  @r", "FETCH @q")
        yield _d(
            f"QUEUE {sub} with a star in second place",
            78,
            push(),
            f"QUEUE {sub} @r *",
            "FETCH @q",
        )
    yield _d(
        "remove leaves reservations",
        77,
        push(),
        push("@2"),
        "FETCH @q",
        "QUEUE REMOVE @q",
        "INFO",
        ack(),
        "INFO",
        push("@3"),
        "FETCH @q",
    )
    yield _d(
        "remove leaves retries and later",
        77,
        push(),
        push("@2", at=LATER),
        "FETCH @q",
        fail(),
        "QUEUE REMOVE @q",
        again(),
        again("scheduled", "@2"),
        "FETCH @q",
        "FETCH @q",
    )
    yield _d(
        "remove lifts the pause", 77, push(), "QUEUE PAUSE @q", "QUEUE REMOVE @q", push("@2"), "FETCH @q"
    )
    yield _d(
        "latency",
        79,
        "QUEUE LATENCY @q",
        push(),
        "~0.1",
        "QUEUE LATENCY @q",
        "QUEUE LATENCY @q @r",
        "FETCH @q",
        "QUEUE LATENCY @q",
    )
    for words in ("*", "@q *", "a/b", "@q @q", " @q", "default"):
        yield _d(f"QUEUE LATENCY {words}", 79, f"QUEUE LATENCY {words}", "FETCH")
    yield _d(
        "flush",
        80,
        push(),
        push("@2"),
        push("@3", at=LATER),
        "FETCH @q",
        fail(),
        "FLUSH",
        "QUEUE LATENCY @q",
        again(),
        ack(),
        ack("@2"),
        push("@4"),
        "FETCH @q",
        ack("@4"),
    )
    yield _d(
        "flush and info",
        80,
        push(),
        "FETCH @q",
        ack(),
        push("@2", at=LATER),
        "FLUSH",
        mutate("requeue", "scheduled"),
        *_sentinel(),
    )


def _mutate() -> Iterator[Dialogue]:
    kinds = ("apple", "pear", "apple*")
    fill = {
        "scheduled": [
            push(f"@{n}", at=f"209{n}-01-02T03:04:05Z", jobtype=kind, args=[kind])
            for n, kind in enumerate(kinds, 1)
        ],
        "retries": [
            step
            for n, kind in enumerate(kinds, 1)
            for step in (push(f"@{n}", jobtype=kind, args=[kind]), "FETCH @q", fail(f"@{n}"))
        ],
        "dead": [
            step
            for n, kind in enumerate(kinds, 1)
            for step in (push(f"@{n}", jobtype=kind, args=[kind], retry=-1), "FETCH @q", fail(f"@{n}"))
        ],
    }
    filters: tuple[dict[str, Any], ...] = (
        {},
        {"jids": ["@1"]},
        {"jids": ["@1", "@3", "@7"]},
        {"jids": ["@7"]},
        {"jids": ["@1"], "jobtype": "pear"},
        {"jids": ["@2"], "regexp": "nothing"},
        {"jobtype": "pear"},
        {"jobtype": "pea"},
        {"regexp": "*"},
        {"regexp": "*pear*"},
        {"regexp": "pear"},
        {"regexp": r'*"args":\["pear"\]*'},
        {"regexp": '*"args":["pear"]*'},
        {"regexp": '*"jobtype":"?ea[qr]"*'},
        {"regexp": '*"jobtype":"[^a]*'},
        {"regexp": "*", "jobtype": "pear"},
        {"regexp": "*apple*", "jobtype": "pear"},
        {"jids": [], "jobtype": "pear"},
        {"regexp": "", "jobtype": ""},
        {"strange": 1},
    )
    for target, steps in fill.items():
        for cmd in ("clear", "discard", "kill", "requeue"):
            for chosen in filters:
                if cmd == "clear" and chosen not in filters[:2]:
                    continue
                name = f"{cmd} {target} {compact(chosen)}"
                yield _d(name, (81, 82, 83, 84, 85), *steps, mutate(cmd, target, **chosen), "INFO")
    yield _d(
        "jobtype with a glob in it",
        83,
        *fill["scheduled"],
        mutate("discard", "scheduled", jobtype="apple*"),
        "INFO",
        differs="Anew takes a jobtype literally",
    )
    yield _d(
        "filter is null or empty",
        85,
        *fill["scheduled"],
        'MUTATE {"cmd":"discard","target":"scheduled","filter":null}',
        "INFO",
        *fill["scheduled"],
        'MUTATE {"cmd":"kill","target":"scheduled","filter":{}}',
        "INFO",
    )
    for text in (
        "x",
        "{}",
        "[]",
        "null",
        "5",
        '{"cmd":"clear"}',
        '{"target":"dead"}',
        '{"cmd":"x","target":"dead"}',
        '{"cmd":"clear","target":"x"}',
        '{"cmd":"x","target":"x"}',
        '{"cmd":"CLEAR","target":"dead"}',
        '{"cmd":5,"target":"dead"}',
        '{"cmd":"clear","target":"working"}',
        '{"cmd":"clear","target":"dead","filter":5}',
        '{"cmd":"clear","target":"dead","filter":{"jids":"x"}}',
        '{"cmd":"clear","target":"dead","filter":{"regexp":5}}',
        '{"cmd":"clear","target":"dead","strange":1}',
        '{"cmd":"requeue","target":""}',
        '{"cmd":"","target":"dead"}',
        "{",
    ):
        yield _d(f"MUTATE {text}", 86, push(at=LATER), f"MUTATE {text}", "INFO")
    yield _d(
        "MUTATE with spaces in its JSON",
        86,
        push(at=LATER),
        'MUTATE {"cmd": "clear", "target": "scheduled"}',
        "INFO",
        differs=SPACES,
    )
    yield _d(
        "killed from scheduled",
        87,
        push(at=LATER),
        mutate("kill", "scheduled", jids=["@1"]),
        again("dead"),
        "FETCH @q",
    )
    yield _d(
        "killed from retries",
        81,
        push(),
        "FETCH @q",
        fail(),
        mutate("kill", "retries", jids=["@1"]),
        again("dead"),
        "FETCH @q",
        fail(),
        again(),
        "FETCH @q",
    )
    yield _d(
        "killed from dead",
        81,
        push(retry=-1),
        "FETCH @q",
        fail(),
        mutate("kill", "dead", jids=["@1"]),
        "INFO",
        again("dead"),
        "FETCH @q",
    )
    yield _d("requeued from retries", 88, push(), "FETCH @q", fail(), again(), "FETCH @q", ack())
    yield _d(
        "requeued to a paused queue",
        88,
        push(),
        "FETCH @q",
        fail(),
        "QUEUE PAUSE @q",
        again(),
        "FETCH @q",
        "QUEUE RESUME @q",
        "FETCH @q",
    )


TABLE: tuple[Dialogue, ...] = tuple(
    dialogue
    for part in (
        _handshake,
        _framing,
        _fields,
        _names,
        _times,
        _json,
        _bulk,
        _fetch,
        _verdicts,
        _reservations,
        _workers,
        _queues,
        _mutate,
    )
    for dialogue in part()
)
