"""What one question may burn: the bounds hold whatever runs inside, and are gone afterwards."""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import threading

import pytest

from anew.errors import TooLarge
from anew.patience import LESS, left_s, patience, spending

MIB = 1 << 20

needs_statm = pytest.mark.skipif(
    sys.platform != "linux", reason="the size of a process is told by Linux only"
)


def spin() -> None:
    while True:
        pass


def test_what_has_no_end_is_ended() -> None:
    with (
        pytest.raises(
            TooLarge, match=f"^this takes longer than 20 ms of processor time; expected {LESS}$"
        ) as told,
        patience(0.02, None),
    ):
        spin()
    assert told.value.field == "time"


def test_what_spends_the_time_says_what_takes_less() -> None:
    def recovered() -> None:
        with contextlib.suppress(KeyError), spending("a shorter text"), spending("a smaller table"):
            raise KeyError
        with spending("a shorter text"):
            pass
        spin()

    with pytest.raises(TooLarge, match=r"; expected fewer dots$"), patience(0.02, None, less="fewer dots"):
        recovered()
    with (
        pytest.raises(TooLarge, match=r"; expected a smaller table$"),
        patience(0.02, None),
        spending("a shorter text"),
        spending("a smaller table"),
    ):
        spin()


def test_what_takes_the_memory_says_what_takes_less() -> None:
    with (
        pytest.raises(TooLarge, match=r"MiB of memory; expected a shorter text$"),
        patience(60, 64 * MIB),
        spending("a shorter text"),
    ):
        raise MemoryError
    with pytest.raises(TooLarge, match=f"; expected {LESS}$"), patience(60, 64 * MIB):
        raise MemoryError


def test_a_part_that_expects_failures_does_not_swallow_the_end() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin()
            except Exception:
                continue

    with pytest.raises(TooLarge), patience(0.02, None):
        stubborn()


def test_an_end_that_is_lost_comes_again() -> None:
    """Python drops what is raised while an object is deleted."""

    class Slow:
        def __del__(self) -> None:
            spin()

    def twice() -> None:
        Slow()
        spin()

    with pytest.raises(TooLarge), patience(0.02, None):
        twice()


@pytest.mark.filterwarnings("error")
def test_what_is_lost_is_not_printed() -> None:
    """A figure holds its parts in weak dictionaries, whose callbacks may be what the end meets: Python tells of it."""

    class Slow:
        def __del__(self) -> None:
            spin()

    before = sys.unraisablehook
    with pytest.raises(TooLarge), patience(0.02, None):
        Slow()
    assert sys.unraisablehook is before


def test_another_exception_in_place_of_the_end_is_the_end() -> None:
    """As matplotlib's `ValueError: Invalid affine transformation matrix`, when it is the end that it met."""

    def replaced() -> None:
        try:
            spin()
        except BaseException:
            raise ValueError("Invalid affine transformation matrix") from None

    with pytest.raises(TooLarge, match="longer than 20 ms"), patience(0.02, None):
        replaced()


def test_what_goes_on_after_the_end_has_no_result() -> None:
    with (
        pytest.raises(TooLarge, match="longer than 20 ms"),
        patience(0.02, None),
        contextlib.suppress(BaseException),
    ):
        spin()


def test_code_that_does_not_say_that_it_got_no_memory() -> None:
    with pytest.raises(TooLarge, match="more than 64 MiB"), patience(60, 64 * MIB):
        raise SystemError("returned NULL without setting an exception")
    with pytest.raises(SystemError), patience(60, None):
        raise SystemError("no bound, no excuse")


def test_the_end_spares_what_takes_the_bounds_away() -> None:
    """An end on the way out of the block would leave the timer running, for the next command in the process to meet."""
    with patience(60, None):
        stop = signal.getsignal(signal.SIGPROF)
        assert callable(stop)
        for module in (contextlib, sys.modules["anew.patience"]):
            stop(signal.SIGPROF, eval("__import__('sys')._getframe()", vars(module)))


def test_afterwards_nothing_is_bounded() -> None:
    handler, size = signal.getsignal(signal.SIGPROF), resource.getrlimit(resource.RLIMIT_AS)
    with patience(60, 64 * MIB):
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    assert signal.getsignal(signal.SIGPROF) == handler
    assert resource.getrlimit(resource.RLIMIT_AS) == size


def test_other_errors_pass_and_lift_the_bounds() -> None:
    with pytest.raises(KeyError), patience(60, 64 * MIB):
        raise KeyError("other")
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


@needs_statm
def test_memory_beyond_the_bound_is_refused() -> None:
    with (
        pytest.raises(TooLarge, match=f"^this needs more than 64 MiB of memory; expected {LESS}$") as told,
        patience(None, 64 * MIB),
    ):
        bytearray(512 * MIB)
    assert told.value.field == "memory"
    assert len(bytearray(128 * MIB)) == 128 * MIB


@needs_statm
def test_within_the_bounds_nothing_is_said() -> None:
    with patience(60, 64 * MIB):
        assert len(bytearray(16 * MIB)) == 16 * MIB


def test_in_a_thread_there_are_no_signals_and_no_bounds() -> None:
    seen = []

    def inside() -> None:
        with patience(60, None):
            seen.append(signal.getitimer(signal.ITIMER_PROF))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [(0.0, 0.0)]


def test_what_is_left_of_the_time_is_told() -> None:
    """The kernel counts in its own steps, of a hundredth of a second at most."""
    assert left_s() is None
    with patience(20.0, None):
        left = left_s()
        assert left is not None
        assert 19 < left < 20.02
    with patience(None, None):
        assert left_s() is None
    assert left_s() is None
