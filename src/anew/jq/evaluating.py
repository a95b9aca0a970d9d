"""The process that evaluates: a request in, an answer out, each evaluation within bounds that the kernel keeps.

It is started by this file's path and imports nothing of ours, so that it starts soon and is small. Its stdin and stdout are one
socket; at the end of that it ends. An evaluation that takes too long, or too much memory, ends it as well.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final

CPU_S: Final = 0.1
"""Seconds of processor time for a compilation, or for one payload."""

FOLD_CPU_S: Final = 0.02
"""The same for a condition, and for a fold: transactions wait for them."""

CPU_S_PER_MIB: Final = 0.1
"""The same for each MiB of a payload: to parse one takes a third of it."""

MEMORY_BYTES: Final = 256 << 20
"""Address space of the process."""

MOST_MERGED: Final = 256 << 10
"""Bytes of two payloads that are merged, and of what they become: a transaction waits for it."""

_KEPT_PROGRAMS: Final = 32


# ---- what the server and this process say to each other

COMPILE: Final = b"compile"
MATCHING: Final = b"matching"
WHEN: Final = b"when"
FOLD: Final = b"fold"
MERGE: Final = b"merge"

FILTER: Final = "filter"
"""The form of an expression whose input is a payload; `when` and `fold` have none, and two variables."""

DONE: Final = b"="
REFUSED: Final = b"!"
READY: Final = b"ready"

ANSWER: Final = struct.Struct("<cQ")
"""What an answer begins with: DONE or REFUSED, and how many bytes follow."""

_LENGTH: Final = struct.Struct("<Q")


def framed(parts: Sequence[bytes]) -> bytes:
    """Give a request as it goes through the socket."""
    return b"".join((struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts)), *parts))


def _request(source: BinaryIO) -> list[bytes] | None:
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (count,) = _LENGTH.unpack(head)
    lengths = struct.unpack(f"<{count}Q", source.read(count * _LENGTH.size))
    return [source.read(length) for length in lengths]


# ---- expressions

_UNAVAILABLE: Final = (
    "input", "inputs", "debug", "debug(f)", "stderr", "input_filename", "input_line_number", "halt", "halt_error",
    "halt_error(f)", "now", "localtime", "strflocaltime(f)", "modulemeta", "get_search_list", "get_prog_origin",
    "get_jq_origin",
)  # fmt: skip
"""What reaches beyond a payload: other input, output, the clock, the time zone, files, the process."""

_PREAMBLE: Final = "".join(f"def {name}: {name.partition('(')[0]}_is_unavailable;" for name in _UNAVAILABLE)
"""Hides them: jq reports the undefined name as an error of the compilation, and only where the definition is used."""

_VARIABLES: Final = ". as [$existing, $new] | null |"
_TRUTH: Final = "| if . then true else false end"

_FORMS: Final = {FILTER: ("", _TRUTH), "when": (_VARIABLES, _TRUTH), "fold": (_VARIABLES, "| tojson")}
"""What stands around an expression: truth values and text are all that leaves jq, so numbers keep their digits."""

_UNAVAILABLE_NAME: Final = re.compile(r"error: (\w+)_is_unavailable/")
_SYNTAX: Final = re.compile(
    r"(?:jq: error: )?(.*?)(?: at <top-level>, line ([0-9]+), column ([0-9]+):)?", re.DOTALL
)


class Refused(Exception):
    """An expression that cannot be compiled, or does not give what it should."""


class Programs:
    """Compiled expressions, the latest few of them.

    Args:
        compile_text: Compiles a whole program of jq; raises ValueError.
    """

    def __init__(self, compile_text: Callable[[str], Any]) -> None:
        self._compile = compile_text
        self._kept: dict[tuple[str, str], Any] = {}

    def of(self, form: str, text: str) -> Any:
        """Give an expression as a program; raises Refused."""
        program = self._kept.pop((form, text), None) or self._compiled(form, text)
        self._kept[form, text] = program
        if len(self._kept) > _KEPT_PROGRAMS:
            del self._kept[next(iter(self._kept))]
        return program

    def _compiled(self, form: str, text: str) -> Any:
        before, after = _FORMS[form]
        bound(0)
        try:
            # By itself first, so that it cannot end the parenthesis. The definitions before it make `import` a syntax error.
            self._compile(f"{_PREAMBLE}{before}\n{text}")
            # Two line ends: a comment goes on behind a backslash and the first one.
            return self._compile(f"{_PREAMBLE}{before}(\n{text}\n\n){after}")
        except ValueError as error:
            raise Refused(_reason(str(error))) from None


def _reason(error: str) -> str:
    """Word what jq says about an expression, with the position in what its author wrote."""
    unavailable = _UNAVAILABLE_NAME.search(error)
    if unavailable:
        return f"{unavailable[1]} is not available here"
    found = _SYNTAX.fullmatch(error.partition("\n")[0])
    assert found is not None
    message, line, column = found.groups()
    # The first line is what stands before the expression.
    if "Top-level program not given" in error or line == "1":
        return "there is nothing to evaluate; expected an expression such as .user_id == 42"
    return f"{message} at line {int(line) - 1}, column {column}" if line else message


def bound(size: int, cpu_s: float = CPU_S) -> None:
    """Give what follows its processor time; SIGPROF, which nobody handles, ends the process in the midst of C code too."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s + CPU_S_PER_MIB * size / (1 << 20))


def compiles(programs: Programs, parts: Sequence[bytes]) -> bytes:
    """Compile an expression: its form and its text come in."""
    form, text = (part.decode() for part in parts)
    programs.of(form, text)
    return b""


def matching(programs: Programs, parts: Sequence[bytes]) -> bytes:
    """Evaluate a filter: milliseconds, its text and payloads come in; a byte goes out for each payload reached in that time."""
    within_ms, text = (part.decode() for part in parts[:2])
    end = time.monotonic() + int(within_ms) / 1_000
    program = programs.of(FILTER, text)
    found = bytearray()
    for payload in parts[2:]:
        bound(len(payload))
        found.append(_matches(program, payload))
        if time.monotonic() >= end:
            break
    return bytes(found)


def _matches(program: Any, payload: bytes) -> bool:
    try:
        return any(program.input_text(payload.decode()))
    except ValueError:  # of jq's own, and of text that is no UTF-8
        return False


def when(programs: Programs, parts: Sequence[bytes]) -> bytes:
    """Evaluate a condition: its text and two payloads come in; its first output goes out as b"1" or b"0", none as b"0"."""
    return b"1" if next(_outputs(programs, "when", parts), False) else b"0"


def fold(programs: Programs, parts: Sequence[bytes]) -> bytes:
    """Evaluate a fold: its text and two payloads come in; its one output goes out as JSON, if it is not too long to be used."""
    outputs = _outputs(programs, "fold", parts)
    result = next(outputs, None)
    if result is None:
        raise Refused("it gives nothing; expected one value")
    if next(outputs, None) is not None:
        raise Refused("it gives several values; expected one")
    written = bytes(result.encode())
    return written if len(written) <= MOST_MERGED else b""


def merge(programs: Programs, parts: Sequence[bytes]) -> bytes:
    """Evaluate both: a condition, a fold and two payloads come in; what the fold gives goes out, or nothing: it does not hold."""
    condition, text, existing, new = parts
    try:
        holds = when(programs, (condition, existing, new)) == b"1"
    except Refused:
        holds = False
    return fold(programs, (text, existing, new)) if holds else b""


def _outputs(programs: Programs, form: str, parts: Sequence[bytes]) -> Iterator[Any]:
    text, existing, new = parts
    program = programs.of(form, text.decode())
    bound(len(existing) + len(new), FOLD_CPU_S)
    try:
        yield from program.input_text(f"[{existing.decode()},{new.decode()}]")
    except ValueError as error:
        raise Refused(str(error)) from None


KINDS: Final = {COMPILE: compiles, MATCHING: matching, WHEN: when, FOLD: fold, MERGE: merge}


# ---- the process


def main() -> None:
    """Serve the socket until it ends."""
    (directory,) = sys.argv[1:]
    sys.path.append(directory)
    from jq import compile as compile_text

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    os.environ.clear()  # an interpreter may have added to it
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # whoever started this one may ignore it, or block it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    bound_all()
    say(sink, DONE, READY)
    serve(source, sink, Programs(compile_text))


def bound_all() -> None:
    """Set the bounds of the whole process, where this system has them."""
    limits = {resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0}
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # macOS has no bound of the address space
            continue


def serve(source: BinaryIO, sink: BinaryIO, programs: Programs) -> None:
    """Answer each request."""
    while (parts := _request(source)) is not None:
        try:
            answer = DONE, KINDS[parts[0]](programs, parts[1:])
        except Refused as refusal:
            answer = REFUSED, str(refusal).encode(errors="replace")
        signal.setitimer(signal.ITIMER_PROF, 0)
        say(sink, *answer)


def say(sink: BinaryIO, status: bytes, text: bytes) -> None:
    """Send an answer."""
    for part in (ANSWER.pack(status, len(text)), text):
        sink.write(part)
    sink.flush()


if __name__ == "__main__":
    main()
