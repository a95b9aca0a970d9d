"""The screen of `anew top`, in a terminal of 80 by 24: what is seen, and what each key asks of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from anew.errors import Unauthorized, Unreachable
from anew.top import screen as module
from anew.top.screen import Confirm, Connection, Top

from .test_model import NOW, changed, job, snapshot

SIZE = (80, 24)


class Server:
    """The other end of the connection.

    Attributes:
        said: What it has heard.
        refusing: What connecting raises.
    """

    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []
        self.refusing: Exception | None = None
        self.connections = 0
        self._messages: asyncio.Queue[str | None] = asyncio.Queue()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        if self.refusing is not None:
            raise self.refusing
        self.connections += 1
        yield self  # type: ignore[misc]

    async def send(self, message: str) -> None:
        self.said.append(json.loads(message))

    def tell(self, message: dict[str, Any]) -> None:
        self._messages.put_nowait(json.dumps(message))

    def hang_up(self) -> None:
        self._messages.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (message := await self._messages.get()) is not None:
            yield message


class Terminal:
    """The program at work."""

    def __init__(self, server: Server, top: Top, pilot: Pilot[int]) -> None:
        self.server = server
        self.top = top
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Let what is under way come to its end, and be drawn."""
        await self.pilot.pause()
        if self.top.screen is self.top.screen_stack[0]:
            self.top._redraw()
        await self.pilot.pause()

    async def tell(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            self.server.tell(message)
        await self.pilot.pause()
        await self.settle()

    @property
    def head(self) -> list[str]:
        return str(self.top.query_one("#head", Static).content).split("\n")

    @property
    def rows(self) -> list[str]:
        """The ids in the table."""
        table: DataTable[Any] = self.top.query_one(DataTable)
        return [str(row.value) for row in table.rows]

    @property
    def detail(self) -> str:
        return str(self.top.query_one("#detail", Static).content)

    def heard(self, kind: str) -> list[dict[str, Any]]:
        """What the server has heard of a kind since the last call."""
        found = [message for message in self.server.said if message["type"] == kind]
        self.server.said.clear()
        return found


Test = Callable[[Terminal], Awaitable[None]]


def in_terminal(test: Test) -> Callable[[pytest.MonkeyPatch], None]:
    """Have a test run with the program started and a first snapshot shown."""

    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "RETRY_S", 0.01)

        async def main() -> None:
            server = Server()
            top = Top(server.connect, "http://127.0.0.1:8901", lambda: NOW)
            async with top.run_test(size=SIZE) as pilot:
                terminal = Terminal(server, top, pilot)
                rows = [job(name, dequeued_at=NOW - 1_000 + n) for n, name in enumerate("abc")]
                waiting = [job(name, priority=n) for n, name in enumerate("xyz")]
                await terminal.tell(snapshot(in_flight=rows, ready=waiting))
                asked = [(message["list"], message["limit"]) for message in terminal.heard("subscribe")]
                assert asked == [("in_flight", 60), ("ready", 60), ("scheduled", 60)]
                await test(terminal)

        asyncio.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_terminal
async def test_totals_and_one_list_are_shown_and_tab_turns_to_the_next(terminal: Terminal) -> None:
    assert terminal.head[0] == "http://127.0.0.1:8901  connected"
    assert terminal.head[1].startswith("version 0.6.1  up 0 ms  0 done/s  0 failed/s")
    assert terminal.head[2] == "[In flight 8]    Ready 9     Scheduled 7 "
    assert terminal.rows == ["a", "b", "c"]
    await terminal.press("tab")
    assert terminal.head[2] == " In flight 8    [Ready 9]    Scheduled 7 "
    assert terminal.rows == ["x", "y", "z"]
    await terminal.press("shift+tab", "shift+tab")
    assert terminal.head[2].endswith("[Scheduled 7]")
    assert terminal.rows == []


@in_terminal
async def test_all_of_a_row_fits_into_80_columns(terminal: Terminal) -> None:
    table: DataTable[Any] = terminal.top.query_one(DataTable)
    assert table.virtual_size.width <= 78
    assert table.size.height >= 15


@in_terminal
async def test_changes_are_shown_and_the_cursor_stays_on_its_job(terminal: Terminal) -> None:
    await terminal.press("down")
    await terminal.tell(
        changed("in_flight_removed", "a"),
        changed("completed", "a"),
        changed("in_flight", "d", dequeued_at=NOW),
    )
    assert terminal.rows == ["b", "c", "d"]
    assert "0 done/s" in terminal.head[1] or "1 done/s" in terminal.head[1]
    await terminal.press("i")
    assert "id: b" in terminal.detail


@in_terminal
async def test_the_cursor_stays_on_its_row_where_its_job_is_gone(terminal: Terminal) -> None:
    await terminal.press("down")
    await terminal.tell(changed("in_flight_removed", "b"))
    await terminal.press("d", "y")
    assert terminal.heard("delete_job") == [{"type": "delete_job", "id": "c"}]


@in_terminal
async def test_detail_is_asked_for_and_shown(terminal: Terminal) -> None:
    await terminal.press("i")
    assert terminal.heard("set_detail_level") == [{"type": "set_detail_level", "detail": True}]
    assert terminal.top.query_one("#detail").display
    assert "id: a" in terminal.detail
    assert "queue: q" in terminal.detail
    await terminal.press("i")
    assert terminal.heard("set_detail_level") == [{"type": "set_detail_level", "detail": False}]
    assert not terminal.top.query_one("#detail").display


@in_terminal
async def test_a_job_is_deleted_only_after_a_question(terminal: Terminal) -> None:
    for no in ("n", "escape"):
        await terminal.press("d")
        assert isinstance(terminal.top.screen, Confirm)
        await terminal.press(no)
        assert terminal.heard("delete_job") == []
    await terminal.press("down", "d", "y")
    assert terminal.heard("delete_job") == [{"type": "delete_job", "id": "b"}]
    await terminal.press("shift+tab", "d")  # a list without jobs
    assert not isinstance(terminal.top.screen, Confirm)


@in_terminal
async def test_a_job_is_found_by_a_part_of_its_type_or_its_queue(terminal: Terminal) -> None:
    await terminal.press("tab", "slash", *"send queue", "equals_sign", *"mail", "enter")
    (asked,) = terminal.heard("find")
    assert asked == {
        "type": "find", "list": "ready", "anchor": {"kind": "start"}, "direction": "forward", "limit": 60,
        "query": {"queues": ["mail"], "types": ["send"]},
    }  # fmt: skip
    window = {"items": [], "first_position": 0, "total": 9, "resolved_anchor": "y"}
    await terminal.tell({"event": "find_result", "list": "ready", "matched_position": 1, "window": window})
    (around,) = terminal.heard("subscribe")
    assert around["anchor"] == {"kind": "around", "id": "y", "fallback": "head"}
    for key, direction in (("n", "forward"), ("N", "backward")):
        await terminal.press(key)
        (asked,) = terminal.heard("find")
        assert (asked["direction"], asked["anchor"]) == (direction, {"kind": "job_id", "id": "y"})


@in_terminal
async def test_the_question_what_to_find_can_be_left(terminal: Terminal) -> None:
    await terminal.press("slash", "x", "escape", "slash", "enter")
    assert terminal.heard("find") == []
    await terminal.press("n")
    assert terminal.heard("find") == []


@in_terminal
async def test_first_and_last_are_asked_for(terminal: Terminal) -> None:
    for key, kind in (("G", "tail"), ("g", "head")):
        await terminal.press(key)
        (asked,) = terminal.heard("subscribe")
        assert asked == {"type": "subscribe", "list": "in_flight", "anchor": {"kind": kind}, "limit": 60}
        await terminal.press("d", "y")
        assert terminal.heard("delete_job") == [{"type": "delete_job", "id": "c" if kind == "tail" else "a"}]


@in_terminal
async def test_more_is_asked_for_at_the_ends_of_a_window(terminal: Terminal) -> None:
    await terminal.press("down", "down")
    assert [asked["anchor"] for asked in terminal.heard("subscribe")] == [{"kind": "offset", "offset": 1}]
    rows = [job(name, dequeued_at=NOW + n) for n, name in enumerate("bcde")]
    await terminal.tell(snapshot(first=3, in_flight=rows))
    await terminal.press("up", "up")
    assert [asked["anchor"] for asked in terminal.heard("subscribe")] == [{"kind": "offset", "offset": 1}]


@in_terminal
async def test_a_paused_screen_stands_still_and_catches_up(terminal: Terminal) -> None:
    await terminal.press("p")
    assert terminal.head[0].endswith("paused")
    await terminal.tell(snapshot(in_flight=[]))
    assert terminal.rows == ["a", "b", "c"]
    await terminal.press("p")
    assert len(terminal.heard("subscribe")) == 1
    await terminal.tell(snapshot(in_flight=[]))
    assert terminal.rows == []


@in_terminal
async def test_a_lost_connection_is_said_and_made_again(terminal: Terminal) -> None:
    server = terminal.server
    server.refusing = Unreachable("no server at http://127.0.0.1:8901 (connection refused)")
    server.hang_up()
    while terminal.top.state == "connected":
        await terminal.pilot.pause()
    await terminal.settle()
    assert terminal.head[0].endswith("no server answers")
    server.refusing = Unauthorized("the bearer token is wrong")
    while terminal.top.state == "no server answers":
        await terminal.pilot.pause()
    await terminal.settle()
    assert terminal.head[0].endswith("the bearer token is wrong")
    server.refusing = None
    while server.connections < 2:
        await terminal.pilot.pause()
    await terminal.tell(snapshot(in_flight=[job("new")]))
    assert terminal.rows == ["new"]


def test_without_colour_nothing_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert Top(Server().connect, "u", lambda: NOW).no_color
