"""The turnstile and the signs of life, each seen through two openings of one file: their locks meet as those of processes do."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from anew.errors import StoreFailed
from anew.store.sqlite import Places, presence, sharing
from anew.store.sqlite.presence import Presence
from anew.store.sqlite.sharing import Sharing
from anew.store.sqlite.turnstile import Turnstile


@pytest.fixture
def two(tmp_path: Path) -> tuple[Turnstile, Turnstile]:
    path = tmp_path / "turnstile"
    return Turnstile(path), Turnstile(path)


def test_one_at_a_time(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    assert first.enter()
    assert first.enter(), "who has the turn keeps it"
    assert not second.enter()
    first.leave()
    assert second.enter()
    assert not first.enter()


def test_whoever_waits_is_called_with_the_turn(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    called = threading.Event()
    assert first.enter()
    second.when_free(called.set)
    assert not second.held
    assert not called.is_set()
    first.leave()
    assert called.wait(20)
    assert second.held
    assert not first.enter()


def test_two_calls_that_wait_are_both_made(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    calls = [threading.Event(), threading.Event()]
    first.enter()
    for call in calls:
        second.when_free(call.set)
    assert not second.enter(), "a thread waits for it already"
    first.leave()
    assert all(call.wait(20) for call in calls)


def test_a_free_turn_is_left_to_the_thread_that_waits_for_it(
    two: tuple[Turnstile, Turnstile], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two
    called, go_on = threading.Event(), threading.Event()
    lock = fcntl.flock

    def held(fd: int, how: int) -> None:
        if how == fcntl.LOCK_EX:  # the waiter's, which blocks
            assert go_on.wait(20)
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", held)
    assert first.enter()
    second.when_free(called.set)
    first.leave()
    assert not second.enter()
    go_on.set()
    assert called.wait(20)
    assert second.enter()


def test_the_holder_is_known_by_its_process(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    assert second.holder() is None
    first.enter()
    assert second.holder() == str(os.getpid())


def test_closing_lets_go_of_the_turn(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    first.enter()
    first.close()
    assert second.enter()


def test_a_mark_stops_whoever_comes_and_can_be_cleared(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    first.enter()
    first.mark("EIO at fsync")
    first.leave()
    with pytest.raises(StoreFailed, match="EIO at fsync"):
        second.enter()
    assert first.enter(heed_mark=False), "the refused one does not keep the turn"
    assert first.mark_found() == "EIO at fsync"
    first.clear_mark()
    first.leave()
    assert second.enter()


def test_a_mark_of_any_length_is_bounded(two: tuple[Turnstile, Turnstile], tmp_path: Path) -> None:
    two[0].mark("x" * 100_000)
    assert (tmp_path / "turnstile").stat().st_size == 4_096


# -- signs of life


def test_a_process_lives_as_long_as_its_file_is_locked(tmp_path: Path) -> None:
    first, second = Presence(tmp_path / "s"), Presence(tmp_path / "s")
    first.appear(1)
    assert second.is_alive(1)
    assert second.anybody()
    assert not second.is_alive(2)
    first.close_descriptors()  # what a kill does
    assert not second.is_alive(1)
    assert not second.anybody()
    second.forget(1)
    assert os.listdir(tmp_path / "s") == []
    second.close_descriptors()


@pytest.mark.parametrize("depth", [0, 150], ids=["short path", "path longer than a socket's address"])
def test_a_poke_reaches_whoever_listens(tmp_path: Path, depth: int) -> None:
    folder = tmp_path / ("x" * depth or "s")
    first, second = Presence(folder), Presence(folder)
    first.appear(1)
    second.appear(2)
    fd = first.listen()
    second.poke()
    assert os.read(fd, 10) == b"!"
    second.poke()
    first.hear()
    with pytest.raises(BlockingIOError):
        os.read(fd, 10)
    first.leave()
    second.poke()  # nobody is there any more
    second.leave()
    assert os.listdir(folder) == []


def test_who_begins_to_listen_is_found_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the very instant after the last one."""
    now = [100.0]
    monkeypatch.setattr(presence, "time", SimpleNamespace(monotonic=lambda: now[0]))
    first, second = Presence(tmp_path / "s"), Presence(tmp_path / "s")
    first.appear(1)
    second.appear(2)
    second.poke()
    looked = (tmp_path / "s").stat()
    fd = first.listen()
    os.utime(tmp_path / "s", ns=(looked.st_atime_ns, looked.st_mtime_ns))
    now[0] += presence.LOOK_S
    second.poke()
    assert os.read(fd, 10) == b"!"
    first.leave()
    second.leave()


def _read_all(fd: int) -> int:
    """Read every poke that waits in the socket; how many there were."""
    heard = 0
    try:
        while os.read(fd, 1):
            heard += 1
    except BlockingIOError:
        return heard
    raise AssertionError("a poke is a byte")


def test_a_full_socket_delays_nobody(tmp_path: Path) -> None:
    first, second = Presence(tmp_path / "s"), Presence(tmp_path / "s")
    first.appear(1)
    second.appear(2)
    fd = first.listen()
    for _ in range(10_000):
        second.poke()
    heard = _read_all(fd)
    assert 0 < heard < 10_000, "the socket was full long before the last poke, and no poke waited"
    first.leave()
    second.leave()


# -- what came of attacks


def test_a_turn_that_came_too_late_is_given_up_only_while_nobody_uses_it(
    two: tuple[Turnstile, Turnstile],
) -> None:
    first, second = two
    came = threading.Event()
    first.enter()
    second.when_free(came.set)
    first.leave()
    assert came.wait(20)
    assert second.enter(), "somebody begins"
    second.give_up()
    assert not first.enter(), "the turn is not taken from under a transaction"
    second.leave()
    assert first.enter()


def test_closing_while_a_thread_waits_locks_nothing_for_ever(two: tuple[Turnstile, Turnstile]) -> None:
    first, second = two
    first.enter()
    second.when_free(lambda: None)
    second.close()
    first.leave()
    waiter = second._waiter
    assert waiter is not None
    waiter.join(20)
    assert first.enter()


def test_a_poke_that_cannot_look_is_nobodys_error(tmp_path: Path) -> None:
    one = Presence(tmp_path / "s")
    one.appear(1)
    (tmp_path / "s" / "1").unlink()
    (tmp_path / "s").rmdir()
    with pytest.raises(FileNotFoundError):
        one.anybody()
    one.poke()  # looks into the same folder
    one.close_descriptors()


class Interrupted(BaseException):
    """What a signal handler may raise in the middle of anything."""


@pytest.fixture
def sharing_two(tmp_path: Path) -> Iterator[tuple[Sharing, Sharing]]:
    places = Places.beside(tmp_path / "jobs.db")
    first, second = Sharing(places, exclusive=False), Sharing(places, exclusive=False)
    yield first, second
    first.close()
    second.close()


@pytest.mark.parametrize("comes", ["before", "after"])
def test_who_is_interrupted_while_it_waits_does_not_keep_the_turn(
    sharing_two: tuple[Sharing, Sharing], monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    """The interruption comes before the turn, or after it."""
    first, second = sharing_two
    called = threading.Event()

    class Waiting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if comes == "after":
                first.leave()
                super().wait(20)
            raise Interrupted

    assert first.enter()
    with monkeypatch.context() as patch:
        patch.setattr(sharing.threading, "Event", Waiting)
        with pytest.raises(Interrupted):
            second.wait_until_free(20.0)
    first.leave()
    second.when_free(called.set)  # behind what the interrupted one has asked for
    assert called.wait(20)
    second.give_up()
    assert first.enter()


@pytest.mark.parametrize("leave", ["leave", "give_up", "mark_failed"])
def test_who_leaves_wakes_those_who_wait(sharing_two: tuple[Sharing, Sharing], leave: str) -> None:
    first, second = sharing_two
    assert first.wait_until_free(20.0) if leave == "give_up" else first.enter()  # unused, or used
    came: list[bool] = []
    waiter = threading.Thread(target=lambda: came.append(second.wait_until_free(60.0)))
    waiter.start()
    if leave == "mark_failed":
        first.mark_failed("the disk")
    else:
        getattr(first, leave)()
    waiter.join(20)
    assert came == [True]


def test_a_turn_that_comes_too_late_is_given_up(sharing_two: tuple[Sharing, Sharing]) -> None:
    first, second = sharing_two
    assert first.enter()
    assert not second.wait_until_free(0.0)
    first.leave()
    assert first.wait_until_free(20.0)


def test_a_turn_that_has_come_can_be_given_up(sharing_two: tuple[Sharing, Sharing]) -> None:
    first, second = sharing_two
    assert first.wait_until_free(20.0)
    assert not second.enter()
    first.give_up()
    assert second.enter()


def in_child(run: Callable[[], bool]) -> int:
    """Fork, run something in the child, and give its exit code: 0 if it reported true."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits for ever
        try:
            os._exit(0 if run() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_does_not_keep_the_turn_that_its_parent_has_waited_for(
    two: tuple[Turnstile, Turnstile],
) -> None:
    first, second = two
    called, closed, go_on = threading.Event(), os.pipe(), os.pipe()
    assert first.enter()
    second.when_free(called.set)
    first.leave()
    assert called.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        second.close_in_child()
        os.write(closed[1], b"!")
        os.read(go_on[0], 1)
        os._exit(0)
    os.read(closed[0], 1)
    for fd in (second._fd, second._waiting_fd):  # as if the parent had been killed
        os.close(fd)
    assert first.enter()
    os.write(go_on[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fork_while_another_thread_is_at_the_turnstile_does_not_hang_the_child(tmp_path: Path) -> None:
    places = Places.beside(tmp_path / "jobs.db")
    one = Sharing(places, exclusive=False)
    assert one._turnstile is not None

    def close() -> bool:
        one.close_in_child()
        return True

    with one._turnstile._guard:
        assert in_child(close) == 0
    one.close()


def test_a_process_that_cannot_be_asked_is_taken_for_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Presence(tmp_path / "sessions"), Presence(tmp_path / "sessions")
    one.appear(1)

    def none_left(*given: object, **more: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(presence.os, "open", none_left)
        assert other.is_alive(1)
    assert other.is_alive(1)
    assert not other.is_alive(2)
    one.leave()
    assert not other.is_alive(1)
    other.leave()
