"""A line at the bottom of a terminal that says how a worker gets on; what is printed meanwhile scrolls above it."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from anew.cli.output import coloured, paint, write_on
from anew.units import counted

if TYPE_CHECKING:
    from anew.tasks.worker import Worker

EVERY_S: Final = 0.5
RATE_S: Final = 5.0
"""The rate is the mean of so many seconds."""

_ERASE: Final = "\r\x1b[K"


class Rate:
    """Runs a second, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now_s: float, total: int) -> float:
        """Note how many runs there were until now; give how many a second there are."""
        self._seen.append((now_s, total))
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - RATE_S:
            self._seen.popleft()
        (then_s, before), took_s = self._seen[0], now_s - self._seen[0][0]
        return (total - before) / took_s if took_s > 0 and then_s < now_s else 0.0


def status_text(running: int, done: Mapping[str, int], rate: float, state: str = "", *, colour: bool) -> str:
    """Give the line: ``2 running, 1,204 done, 3 failed, 1 dead, 350/s``.

    Args:
        running: Handlers that run.
        done: Runs that have ended, as `anew.tasks.worker.Worker.done` has them.
        rate: Runs that ended, a second.
        state: What the worker does instead of taking jobs; "": it takes some.
        colour: Whether failures may be in colour.
    """
    parts = [f"{running:,} running", f"{done['succeeded']:,} done"]
    bad = {"failed": done["failed"], "dead": done["discarded"]}
    parts += [paint(f"{number:,} {name}", name, colour=colour) for name, number in bad.items() if number]
    parts.append(f"{rate:,.0f}/s" if rate >= 10 or not rate else f"{rate:.1f}/s")
    return (f"{state}: " if state else "") + ", ".join(parts)


class StatusLine:
    """Draws a text again and again, and keeps it below what others print; a context manager.

    Args:
        text: Gives the text; called by a thread of this line's own.
        last: Gives the line that stays when all is over.
    """

    def __init__(self, text: Callable[[], str], last: Callable[[], str]) -> None:
        self._text = text
        self._last = last
        self._stream: TextIO = sys.stderr
        self._lock = threading.RLock()  # a signal's handler may print while its own thread draws
        self._drawn = False
        self._may_draw = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="anew-status", daemon=True)
        self._before: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)

    def __enter__(self) -> StatusLine:
        self._before = (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = (_Above.of(stream, self) for stream in self._before)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        with self._lock:
            self._erase()
            sys.stdout, sys.stderr = self._before
        write_on(self._stream, self._last() + "\n")

    def write_above(self, stream: TextIO, text: str) -> None:
        """Print a text where the line is; the line comes back below it once the text's own line has ended."""
        with self._lock:
            self._erase()
            self._may_draw = text.endswith("\n")
            write_on(stream, text)

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._may_draw:
                    width = shutil.get_terminal_size().columns
                    write_on(self._stream, f"\r{_cut(self._text(), width - 1)}\x1b[K")
                    self._drawn = True
            if self._over.wait(EVERY_S):
                return

    def _erase(self) -> None:
        if self._drawn:
            write_on(self._stream, _ERASE)
            self._drawn = False


class _Above:
    """A terminal's stream whose text comes above a status line."""

    def __init__(self, stream: TextIO, line: StatusLine) -> None:
        self._stream = stream
        self._line = line
        self._rest = threading.local()  # a line comes in parts, and other threads print between them

    @classmethod
    def of(cls, stream: TextIO, line: StatusLine) -> Any:
        """Wrap a stream if it is a terminal."""
        return cls(stream, line) if stream.isatty() else stream

    def write(self, text: str) -> int:
        """Write lines when they end; what has not ended waits for that, or for `flush`."""
        whole, newline, rest = (getattr(self._rest, "text", "") + text).rpartition("\n")
        self._rest.text = rest
        if newline:
            self._line.write_above(self._stream, whole + newline)
        return len(text)

    def flush(self) -> None:
        """Write what has not ended, too."""
        rest, self._rest.text = getattr(self._rest, "text", ""), ""
        if rest:
            self._line.write_above(self._stream, rest)
        self._stream.flush()

    def writelines(self, lines: list[str]) -> None:
        """Write texts as one."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:  # all the rest is the terminal's own
        return getattr(self._stream, name)


def worker_line(worker: Worker, started_s: float, clock: Callable[[], float] = time.monotonic) -> StatusLine:
    """Give the status line of a worker."""
    rate = Rate()
    colour = coloured(sys.stderr)

    def text() -> str:
        state = "stopping" if worker.is_stopping else "quiet" if worker.is_quiet else ""
        per_s = rate.note(clock(), sum(worker.done.values()))
        return status_text(worker.running, worker.done, per_s, state, colour=colour)

    def last() -> str:
        took_s = max(clock() - started_s, 0.001)
        per_s = sum(worker.done.values()) / took_s
        ended = status_text(worker.running, worker.done, per_s, "stopped", colour=colour)
        return ended + (f"; {counted(worker.given_back, 'job')} given back" if worker.given_back else "")

    return StatusLine(text, last)


def _cut(text: str, width: int) -> str:
    plain = click.unstyle(text)
    return text if len(plain) <= width else plain[: max(width, 0)]
