"""Expressions as callers have them: what matches, what folds, and that nothing they do reaches beyond their own evaluation."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from anew.errors import AnewError, ExpressionTooSlow, InternalError, InvalidExpression, Overloaded
from anew.jq import MOST_TEXT, Expressions
from anew.jq.evaluating import COMPILE, FOLD, MATCHING, MERGE, MOST_MERGED, WHEN
from anew.jq.process import STARVED, EvaluatingProcess

NULL = b"null"


@pytest.fixture(scope="module")
def expressions() -> Iterator[Expressions]:
    made = Expressions()
    yield made
    made.close()


def pids(expressions: Expressions) -> list[int]:
    """The processes that are there, filters' first."""
    return [process.pid for process in expressions._all if process.pid is not None]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---- what matches


def test_a_filter_selects_by_its_payload(expressions: Expressions) -> None:
    payloads = [b'{"user_id":42}', b'{"user_id":43}', b"[]", b"null", b'{"user_id":"42"}']
    assert expressions.matching(".user_id == 42", payloads) == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("0", True),
        ('""', True),
        ("false", False),
        ("null", False),
        ("empty", False),
        ("false, null, 1", True),
        ("false, null", False),
        ("error", False),
        (".a.b.c", False),
        ('1, error("later")', True),
        ("null | error", False),
        ("break_is_no_function?", None),
    ],
)
def test_any_output_that_is_true_matches_and_errors_do_not(
    expressions: Expressions, text: str, matches: bool | None
) -> None:
    if matches is None:
        with pytest.raises(InvalidExpression):
            expressions.matching(text, [NULL])
    else:
        assert expressions.matching(text, [b'{"a":1}']) == [matches]


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        (".", b"{}"),
        (".k == 1", b'{"k":1}'),
        ('. == {"a":[1,null]}', b'{"a":[1,null]}'),
        ("(.tags + .more) | length <= 3", b'{"tags":[1],"more":[2,3]}'),
        (".tags | unique | length == 2", b'{"tags":[1,1,2]}'),
        (".tags | sort == [1,2,3]", b'{"tags":[3,1,2]}'),
        ('(.args[0:2] == ["a",1]) and (.kwargs | contains({"k":1}))', b'{"args":["a",1,2],"kwargs":{"k":1,"l":2}}'),
        ('.arguments[-1] | has("k")', b'{"arguments":[0,{"k":null}]}'),
        ("select(.n > 3)", b'{"n":4}'),
        ('.name | startswith("x")', b'{"name":"xy"}'),
        ('.name | test("^[a-z]+y$")', b'{"name":"xy"}'),
        ("# why\n.k == 1 # because", b'{"k":1}'),
        (".k == 1 # \\", b'{"k":1}'),
        ("def f: .k; f", b'{"k":1}'),
        (".a as [$x, $y] | $x < $y", b'{"a":[1,2]}'),
        (".name == \"\u00fc\U0001f600\"", '{"name":"ü😀"}'.encode()),
        (".n == 12345678901234567890", b'{"n":12345678901234567890}'),
    ],
)  # fmt: skip
def test_the_shapes_that_clients_send_work(expressions: Expressions, text: str, payload: bytes) -> None:
    expressions.check(text, "filter")
    assert expressions.matching(text, [payload]) == [True]


def test_nothing_to_look_at_gives_nothing(expressions: Expressions) -> None:
    assert expressions.matching(".", []) == []


def test_a_payload_that_is_no_json_matches_nothing(expressions: Expressions) -> None:
    assert expressions.matching("true", [b"{", b"\xff", b"1"]) == [False, False, True]


def test_time_over_gives_a_shorter_list_of_at_least_one(expressions: Expressions) -> None:
    payloads = [b"1", b"2", b"3"]
    assert expressions.matching(". > 1", payloads, within_s=0) == [False]
    assert expressions.matching(". > 1", payloads, within_s=60) == [False, True, True]


# ---- what is refused


@pytest.mark.parametrize(
    "text", ["", " \n", "# nothing", "def f: 1;", "1 +", ".x y", "(", ") | 1 (", "1) | (2", "foo(1)", "$x"]
)
def test_what_does_not_compile_is_refused_by_its_field(expressions: Expressions, text: str) -> None:
    with pytest.raises(InvalidExpression, match=r"\Ainvalid filter: ") as refused:
        expressions.check(text, "filter")
    assert refused.value.field == "filter"


def test_the_reason_has_the_position_in_the_text(expressions: Expressions) -> None:
    with pytest.raises(InvalidExpression, match=r"unexpected IDENT.* at line 2, column 1\Z"):
        expressions.check(".x\ny", "filter")
    with pytest.raises(InvalidExpression, match=r"foo/1 is not defined at line 1, column 5\Z"):
        expressions.check(". , foo(1)", "filter")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("input", "input"),
        ("[inputs]", "inputs"),
        ("debug", "debug"),
        ('debug("x")', "debug"),
        ("stderr", "stderr"),
        ("input_filename", "input_filename"),
        ("input_line_number", "input_line_number"),
        ("halt", "halt"),
        ("halt_error", "halt_error"),
        ("halt_error(1)", "halt_error"),
        ("now", "now"),
        ("0 | localtime", "localtime"),
        ('0 | strflocaltime("%H")', "strflocaltime"),
        ('"a" | modulemeta', "modulemeta"),
        ("get_search_list", "get_search_list"),
        ("def f: now; f", "now"),
        ('"\\(now)"', "now"),
    ],
)
def test_what_reaches_beyond_a_payload_is_not_available(
    expressions: Expressions, text: str, name: str
) -> None:
    with pytest.raises(InvalidExpression, match=rf"\Ainvalid filter: {name} is not available here\Z"):
        expressions.check(text, "filter")


@pytest.mark.parametrize(
    "text", ['import "a" as a; 1', 'include "a"; 1', 'import "/etc/x" as $x; 1', "module {}; 1"]
)
def test_no_file_can_be_read(expressions: Expressions, text: str) -> None:
    with pytest.raises(InvalidExpression, match="syntax error"):
        expressions.check(text, "filter")


def test_a_function_of_its_own_may_have_any_name(expressions: Expressions) -> None:
    assert expressions.matching("def now: 7; now == 7", [NULL]) == [True]


def test_the_environment_is_empty(expressions: Expressions) -> None:
    assert expressions.matching("$ENV == {} and env == {}", [NULL]) == [True]


def test_an_expression_is_bounded(expressions: Expressions) -> None:
    longest = "1" + " " * (MOST_TEXT - 1)
    expressions.check(longest, "filter")
    for refused in (longest + " ", "ü" * (MOST_TEXT // 2) + "x"):
        with pytest.raises(InvalidExpression, match="it has 4097 bytes; expected at most 4096"):
            expressions.check(refused, "filter")
    for refused in ("1\0", "\ud800"):
        with pytest.raises(InvalidExpression, match="invalid filter: it holds"):
            expressions.check(refused, "filter")
        with pytest.raises(InvalidExpression):
            expressions.matching(refused, [NULL])


@pytest.mark.parametrize(
    "opening", ["[", "(", "{a:", "def f: ", "if ", "-", "try ", '"\\(', ".a[", "1 as $a | "]
)
def test_text_that_nests_as_deeply_as_it_may_gets_an_answer(expressions: Expressions, opening: str) -> None:
    with pytest.raises(InvalidExpression):
        expressions.check(opening * (MOST_TEXT // len(opening)), "filter")


# ---- what is bounded


@pytest.mark.parametrize(
    "text",
    [
        "def f: f; f",
        "last(repeat(1))",
        "[range(1e9)]",
        "[limit(1e9; repeat(\"x\"))]",
        "def f: 1 + f; f",
        "\"x\" * 1e9 | length",
        "reduce range(1e9) as $i (.; [.])",
        "reduce range(30) as $i (\"x\"; . + .) | length",
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\" | [limit(50; repeat(.))] | map(try test(\"^(a+)+$\") catch false) | any",
        "until(false; .)",
        "[[1, 2] | combinations(40)]",
    ],
)  # fmt: skip
def test_a_bomb_ends_alone(expressions: Expressions, text: str) -> None:
    began = time.monotonic()
    refusal: AnewError | None = None
    while refusal is None or str(refusal) == STARVED:  # of a machine that is too busy it says that, rightly
        with pytest.raises((ExpressionTooSlow, Overloaded)) as refused:
            expressions.matching(text, [NULL])
        refusal = refused.value
        assert time.monotonic() - began < 20
    assert re.match(
        r"the expression takes more than (100 ms|256 MiB of memory) for one payload", str(refusal)
    )
    assert expressions.matching(". == 1", [b"1"]) == [True]


def test_time_that_a_host_took_away_is_not_held_against_an_expression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts as the process's. A transaction that waits does so once: then nothing is folded."""
    attempt = EvaluatingProcess._attempt
    hit: list[bytes] = []

    def hit_once(process: EvaluatingProcess, parts: Sequence[bytes], wall_s: float) -> bytes:
        if parts[0] not in hit:
            hit.append(parts[0])
            pid = process._started() and process.pid
            assert pid is not None
            os.kill(pid, signal.SIGPROF)
        return attempt(process, parts, wall_s)

    monkeypatch.setattr(EvaluatingProcess, "_attempt", hit_once)
    with contextlib.closing(Expressions()) as expressions:
        assert expressions.matching(". == 1", [b"1"]) == [True]
        assert expressions.check_fold("true", "$new", b"1") == b"1"
        assert expressions.folded("true", "$new", b"1", b"2") is None
    assert hit == [MATCHING, COMPILE, WHEN, FOLD, MERGE]


def test_each_payload_has_a_time_of_its_own(expressions: Expressions) -> None:
    # Some 2 ms each, of 100 that it may take: all together take far more than the bound of one.
    assert expressions.matching("[range(10000)] | length > 0", [NULL] * 100) == [True] * 100


def test_a_bomb_leaves_the_request_beside_it_alone() -> None:
    expressions = Expressions(processes=2)
    results: list[object] = []

    def explode() -> None:
        for _ in range(3):
            try:
                expressions.matching("def f: f; f", [NULL])
            except ExpressionTooSlow as error:
                results.append(error)

    try:
        thread = threading.Thread(target=explode)
        thread.start()
        for _ in range(20):
            assert expressions.matching(". == 1", [b"1"]) == [True]
            assert expressions.folded("true", "$new", b"1", b"2") == b"2"
        thread.join()
        assert len(results) == 3
    finally:
        expressions.close()


def test_a_long_payload_may_take_longer(expressions: Expressions) -> None:
    payload = b"[" + b",".join(b'"%0100d"' % n for n in range(80_000)) + b"]"
    assert expressions.matching("length == 80000", [payload]) == [True]


# ---- what folds


@pytest.mark.parametrize(
    ("when", "fold", "expected"),
    [
        ("true", "$existing | .p += ($new | .p)", b'{"p":[1,2]}'),
        ("(($existing | .p) + ($new | .p)) | length <= 2", "$new", b'{"p":[2]}'),
        ("(($existing | .p) + ($new | .p)) | length <= 1", "$new", None),
        ("true", "($existing.p + $new.p) | unique", b"[1,2]"),
        ("true, false", "1", b"1"),
        ("false, true", "1", None),
        ("null", "1", None),
        ("empty", "1", None),
        ("error", "1", None),
        ("def f: f; f", "1", None),
        ("[range(1e9)]", "1", None),
        ("1 +", "1", None),
        (". == null", ". == null", b"true"),
        ("true", '"a\\nb"', b'"a\\nb"'),
        ("true", "$existing.p[0] as $new | $new", b"1"),
    ],
)
def test_two_payloads_fold_where_the_condition_holds(
    expressions: Expressions, when: str, fold: str, expected: bytes | None
) -> None:
    assert expressions.folded(when, fold, b'{"p":[1]}', b'{"p":[2]}') == expected


def test_a_fold_keeps_the_digits_of_numbers(expressions: Expressions) -> None:
    long = b'{"big":12345678901234567890123,"cents":1.10}'
    assert expressions.folded("true", "$existing", long, NULL) == long


@pytest.mark.parametrize(
    ("fold", "reason"),
    [
        ('error("no")', "no"),
        ("empty", "it gives nothing; expected one value"),
        ("1, 2", "it gives several values; expected one"),
        ('1, error("no")', "no"),
        ("$other", r"\$other is not defined at line 1, column 1"),
    ],
)
def test_a_fold_that_fails_is_refused(expressions: Expressions, fold: str, reason: str) -> None:
    with pytest.raises(InvalidExpression, match=rf"\Afold: {reason}\Z") as refused:
        expressions.folded("true", fold, b"1", b"2")
    assert refused.value.field == "fold"


def test_what_is_too_long_is_not_folded(expressions: Expressions) -> None:
    """Bytes of both payloads together, and of what they become."""
    half = b'"' + b"x" * (MOST_MERGED // 2 - 2) + b'"'
    longer = half[:-1] + b'x"'
    joined = expressions.folded("true", "$existing + $new", half, half)
    assert joined == b'"' + b"x" * (MOST_MERGED - 4) + b'"'
    assert expressions.folded("true", "1", half, longer) is None
    assert expressions.folded("true", '$existing + $new + "yyy"', half, half) is None
    expressions.check_fold("true", "$existing + $new", longer)


def test_a_fold_that_takes_too_long_is_not_tried_again_for_a_minute() -> None:
    now = [1_000.0, 1_000.25]
    expressions = Expressions(clock=lambda: now.pop(0))
    with contextlib.closing(expressions):
        slow = ("true", "def f: f; f")
        assert expressions.folded(*slow, b"1", b"2") is None
        now += [1_000.3]
        assert expressions.folded("true", "3", b"1", b"2") == b"3"
        now += [1_060.24]
        assert expressions.folded(*slow, b"1", b"2") is None
        assert now == []
        now += [1_060.25, 1_060.5]
        assert expressions.folded(*slow, b"1", b"2") is None
        assert now == []  # it was asked: the clock was read at the end too


@pytest.mark.parametrize(
    ("when", "fold", "message"),
    [
        ("true", "$existing", None),
        ("empty", "$existing", None),
        ("false", "$existing", None),
        ("1 +", "1 +", "batch expression: when: syntax error"),
        ("error", "1 +", "batch expression: fold: syntax error"),
        ("", "1", "batch expression: when: there is nothing to evaluate; expected an expression"),
        ("true", " ", "batch expression: fold: there is nothing to evaluate; expected an expression"),
        ("x" * 4097, "1", "batch expression: when: it has 4097 bytes"),
        ('error("w")', 'error("f")', "batch dry-run: when: w"),
        ("true", 'error("f")', "batch dry-run: fold: f"),
        ("false", "empty", "batch dry-run: fold: it gives nothing; expected one value"),
        ("true", "$existing, $new", "batch dry-run: fold: it gives several values; expected one"),
        ("def f: f; f", "1", "batch dry-run: when: the expression takes more than 20 ms for one payload"),
        ("true", "now", "batch expression: fold: now is not available here"),
    ],
)
def test_a_fold_is_tried_before_it_is_stored(
    expressions: Expressions, when: str, fold: str, message: str | None
) -> None:
    if message is None:
        expressions.check_fold(when, fold, b'{"p":1}')
        return
    with pytest.raises(InvalidExpression, match=rf"\A{message}") as refused:
        expressions.check_fold(when, fold, b'{"p":1}')
    assert refused.value.field == ("when" if ": when: " in message else "fold")


# ---- the processes


def test_nothing_is_started_before_it_is_needed_and_one_serves_many() -> None:
    expressions = Expressions()
    try:
        assert pids(expressions) == []
        expressions.matching("1", [NULL])
        started = pids(expressions)
        assert len(started) == 1
        expressions.matching("2", [NULL])
        assert pids(expressions) == started
        expressions.folded("true", "1", NULL, NULL)
        assert len(pids(expressions)) == 2
    finally:
        expressions.close()


def test_a_process_that_somebody_kills_is_replaced_unnoticed() -> None:
    expressions = Expressions()
    try:
        assert expressions.matching("1", [NULL]) == [True]
        (before,) = pids(expressions)
        os.kill(before, signal.SIGKILL)
        assert expressions.matching("1", [NULL]) == [True]
        (after,) = pids(expressions)
        assert after != before
    finally:
        expressions.close()


@pytest.mark.parametrize("background", [True, False])
def test_a_process_that_does_not_get_on_is_ended(background: bool) -> None:
    """It is not the expression that is too slow."""
    process = EvaluatingProcess(2.0, background=background)
    try:
        process.ask((b"compile", b"filter", b"1"))
        stopped = process.pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises(Overloaded, match="this machine is too busy"):
            process.ask((b"compile", b"filter", b"1"))
        assert not alive(stopped)
        assert process.ask((b"compile", b"filter", b"1")) == b""
    finally:
        process.close()


def test_a_waiting_caller_is_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anew.jq.expressions.WAIT_S", 0.01)
    expressions = Expressions(processes=1)
    taken = expressions._filters.get()
    with pytest.raises(Overloaded, match="too many expressions"):
        expressions.matching("1", [NULL])
    expressions._filters.put(taken)
    expressions.close()


def test_close_ends_the_processes_and_what_they_do() -> None:
    expressions = Expressions()
    expressions.matching("1", [NULL])
    expressions.folded("true", "1", NULL, NULL)
    started = pids(expressions)
    refused: list[BaseException] = []
    slow = [NULL] * 10_000

    def ask() -> None:
        try:
            expressions.matching("[range(10000)] | length > 0", slow)
        except Overloaded as error:
            refused.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    expressions.close()
    thread.join(timeout=30)
    assert [str(error) for error in refused] == ["the server is shutting down"]
    assert not any(alive(pid) for pid in started)
    with pytest.raises(Overloaded):
        expressions.matching("1", [NULL])


def test_it_is_started_with_nothing_but_its_socket(expressions: Expressions) -> None:
    expressions.matching("1", [NULL])
    pid = pids(expressions)[0]
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
    with open(f"/proc/{pid}/environ", "rb") as environ:
        assert environ.read() == b""
    with open(f"/proc/{pid}/limits") as limits:
        assert "Max address space         268435456" in limits.read()


def test_it_ends_with_the_process_that_started_it() -> None:
    program = (
        "import os, signal; from anew.jq import Expressions; expressions = Expressions();"
        "expressions.matching('1', [b'1']); print(next(one.pid for one in expressions._all if one.pid), flush=True); input()"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        ended = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert select.select([ended], [], [], 30)[0]
    os.close(ended)


def test_a_filter_has_what_others_leave_of_the_processor_and_a_fold_has_its_share() -> None:
    expressions = Expressions()
    try:
        expressions.matching("1", [NULL])
        (filters,) = pids(expressions)
        expressions.folded("true", "1", NULL, NULL)
        _, folds = pids(expressions)
        assert os.sched_getscheduler(filters) == os.SCHED_IDLE
        assert os.sched_getscheduler(folds) == os.SCHED_OTHER
        # Linux divides the processor among sessions first (autogroup), so it must be in this one's.
        assert os.getsid(filters) == os.getsid(0)
        assert os.getpgid(filters) == filters
    finally:
        expressions.close()


@pytest.mark.parametrize("missing", ["socketpair", "process"])
def test_where_no_process_can_be_started_it_is_worth_trying_again(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Too many open files, or too many processes: nothing is wrong with the expression."""
    expressions = Expressions()
    made: list[socket.socket] = []
    pair = socket.socketpair

    def few() -> tuple[socket.socket, socket.socket]:
        if missing == "socketpair":
            raise OSError(errno.EMFILE, "Too many open files")
        made.extend(pair())
        return made[-2], made[-1]

    def none(*words: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with contextlib.closing(expressions):
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socketpair", few)
            if missing == "process":
                patch.setattr(subprocess, "Popen", none)
            with pytest.raises(Overloaded, match="no room"):
                expressions.matching("1", [NULL])
            with pytest.raises(Overloaded, match="no room"):
                expressions.check_fold("true", "$new", NULL)
        assert all(one.fileno() == -1 for one in made)
        assert expressions.matching("1", [NULL]) == [True]


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_somebody_kills_while_it_starts_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    expressions = Expressions()
    launched = EvaluatingProcess._launched
    left = [None] * times

    def killed(process: EvaluatingProcess) -> tuple[subprocess.Popen[bytes], socket.socket]:
        child, ours = launched(process)
        if left:
            left.pop()
            child.kill()
        return child, ours

    monkeypatch.setattr(EvaluatingProcess, "_launched", killed)
    with contextlib.closing(expressions):
        if times == 1:
            assert expressions.folded("true", "3", b"1", b"2") == b"3"
            left.append(None)
            expressions._folds.queue[0]._end()
            expressions.check_fold("true", "$new", NULL)
        else:
            with pytest.raises(InternalError, match="does not start"):
                expressions.folded("true", "3", b"1", b"2")
            assert "does not start" in caplog.text
        assert expressions.folded("true", "3", b"1", b"2") == b"3"
