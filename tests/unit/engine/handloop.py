"""The few methods of an event loop that group commit uses, moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from .rig import Rig


class Timer:
    """One call for later."""

    def __init__(self, at_ms: float, callback: Callable[..., None]) -> None:
        self.at_ms = at_ms
        self.callback = callback
        self.dropped = False

    def cancel(self) -> None:
        self.dropped = True

    def cancelled(self) -> bool:
        return self.dropped


class HandLoop:
    """The few methods of an event loop that group commit uses, on the rig's clock.

    Attributes:
        awaits: Whether a thread is to be waited for in each turn, so that what it does belongs to the turn that asked for it.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.soon: list[Callable[[], None]] = []
        self.timers: list[Timer] = []
        self.awaits: Callable[[], bool] = lambda: False
        self._from_threads: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        assert delay_s >= 0
        self.timers.append(Timer(self.rig.clock.monotonic() + delay_s * 1_000, callback))
        return self.timers[-1]

    def time(self) -> float:
        return self.rig.clock.monotonic() / 1_000

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        return self.call_later(when_s - self.time(), callback)

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        """No other process wakes anybody here."""

    def remove_reader(self, fd: int) -> None:
        """See `add_reader`."""

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        self._from_threads.put(callback)

    def turn(self) -> bool:
        """Run what was asked for soon; tell whether there was something."""
        soon, self.soon = self.soon, []
        with suppress(Empty):
            while True:
                soon.append(self._from_threads.get_nowait())
        for callback in soon:
            callback()
        heard = False
        while self.awaits():
            self.hear()
            heard = True
        return heard or bool(soon)

    def hear(self) -> None:
        """Wait for a thread, and run what it asks for."""
        self._from_threads.get(timeout=30)()

    def settle(self, most: int = 50) -> int:
        """Turn until nothing is asked for soon; tell how many turns that took."""
        for turns in range(most):
            if not self.turn():
                return turns
        raise AssertionError(f"the loop still spins after {most} turns")

    def advance(self, ms: int) -> None:
        """Let time pass, timers firing at their instants."""
        end = self.rig.clock.monotonic() + ms
        while True:
            self.settle()
            due = [timer for timer in self.timers if not timer.dropped and timer.at_ms <= end]
            if not due:
                break
            first = min(due, key=lambda timer: timer.at_ms)
            self.timers.remove(first)
            # A real loop wakes in whole milliseconds at the earliest after the instant asked for.
            self.rig.clock.advance(max(0, -int(-(first.at_ms - self.rig.clock.monotonic()) // 1)))
            first.callback()
        self.rig.clock.advance(end - self.rig.clock.monotonic())
        self.settle()

    def live(self) -> list[float]:
        """Instants of the timers that will fire, after now."""
        now = self.rig.clock.monotonic()
        return sorted(timer.at_ms - now for timer in self.timers if not timer.dropped)
