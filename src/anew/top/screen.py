"""The screen of `anew top`: totals, one of three lists, one job, and what may be done."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Final, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from anew.errors import AnewError, Unauthorized, Unreachable
from anew.top.model import LISTS, TIMES, TITLES, Model, cells, details, printable
from anew.units import format_duration

ROWS: Final = 60
"""Jobs of a window: some pages of a terminal. Each of them is drawn anew when something has changed."""

RETRY_S: Final = 2.0
"""Between two tries to connect."""

REDRAW_S: Final = 0.25
"""Between two drawings of what has changed: a busy server sends thousands of messages a second."""


TIMES_MS: Final = 1_000
"""After how long times are written anew though nothing has changed."""

COLUMNS: Final = ("TRIED", "PRIO", "QUEUE", "TYPE", "ID")
WIDTHS: Final = (11, 6, 6, 13, 17, 25)
"""Together two less than 80: the bar at the side has those."""


class Connection(Protocol):
    """An open connection to a live view."""

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        """Give its messages."""

    async def send(self, message: str) -> None:
        """Send one."""


Connect = Callable[[], AbstractAsyncContextManager[Connection]]


class Confirm(ModalScreen[bool]):
    """Asks whether a job is to be deleted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Delete"),
        Binding("n,escape", "dismiss(False)", "Keep"),
    ]
    DEFAULT_CSS = "Confirm { align: center middle; } Confirm Static { width: auto; max-width: 76; border: solid; padding: 0 1; }"

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Show the question."""
        yield Static(Text(f"{self._question}\ny: delete    n: keep"))


class Terms(Input):
    """Asks what to look for."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.leave", show=False)]


class Top(App[int]):
    """The program.

    Args:
        connect: Connects to the live view.
        url: Its address, as it is shown.
        clock: Gives the time, epoch ms.
    """

    TITLE = "anew top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "turn(1)", "List", priority=True),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
        Binding("g,home", "go('head')", "First"),
        Binding("G,end", "go('tail')", "Last"),
        Binding("i", "detail", "Detail"),
        Binding("slash", "find", "Find"),
        Binding("n", "next('forward')", "Next"),
        Binding("N", "next('backward')", show=False),
        Binding("d,D", "delete", "Delete"),
        Binding("p", "pause", "Pause"),
        Binding("q", "quit", "Quit"),
    ]
    CSS = """
    #head { height: 3; }
    DataTable { height: 1fr; }
    #detail { height: auto; max-height: 8; border-top: solid; display: none; }
    #terms { display: none; dock: bottom; }
    """

    def __init__(self, connect: Connect, url: str, clock: Callable[[], int]) -> None:
        super().__init__()
        self._connect = connect
        self._url = url
        self._clock = clock
        self.model = Model()
        self.list = LISTS[0]
        self.state = "connecting"
        self._connection: Connection | None = None
        self._cursor: dict[str, str] = {}  # by list, the id of the job under the cursor
        self._row: dict[str, int] = {}  # by list, where that is
        self._query: dict[str, list[str]] = {}
        self._detail = self._paused = False
        self._changed = True
        self._drawn_at = 0
        self._sending: set[asyncio.Task[None]] = set()

    def compose(self) -> ComposeResult:
        """Build the screen."""
        yield Static(id="head", markup=False)
        with Vertical():
            yield DataTable(cursor_type="row", cell_padding=0)
            yield Static(id="detail", markup=False)
        yield Terms(id="terms", placeholder="type, or queue=NAME; several with blanks")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to watch."""
        self._columns()
        self._table.focus()
        self.set_interval(REDRAW_S, self._redraw)
        self.run_worker(self._watch(), exclusive=True)

    # ---- the connection

    async def _watch(self) -> None:
        while True:
            try:
                async with self._connect() as connection:
                    self._connection = connection
                    self.state = "connected"
                    self._changed = True
                    for name in LISTS:
                        self._send(type="subscribe", list=name, anchor={"kind": "head"}, limit=ROWS)
                    if self._detail:
                        self._send(type="set_detail_level", detail=True)
                    async for message in connection:
                        if not self._paused:
                            self.model.take(json.loads(message), self._clock())
                            self._changed = True
                            self._look_at_found()
            except Unauthorized as error:
                self.state = str(error)
            except AnewError as error:
                self.state = "no server answers" if isinstance(error, Unreachable) else str(error)
            self._connection = None
            self._changed = True
            await asyncio.sleep(RETRY_S)

    def _send(self, **message: Any) -> None:
        """Send a message, if there is a connection; one that breaks meanwhile is noticed by who reads from it."""
        connection = self._connection
        if connection is None:
            return

        async def send() -> None:
            with contextlib.suppress(Exception):
                await connection.send(json.dumps(message))

        task = asyncio.create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _subscribe(self, **anchor: Any) -> None:
        self._send(type="subscribe", list=self.list, anchor=anchor, limit=ROWS)

    # ---- what is drawn

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    def _columns(self) -> None:
        self._table.clear(columns=True)
        for title, width in zip((TIMES[self.list], *COLUMNS), WIDTHS, strict=True):
            self._table.add_column(title, width=width)

    def _redraw(self) -> None:
        if not self.query("#head"):  # the screen is being taken down
            return
        self._draw_head()
        now = self._clock()
        if self._changed or now - self._drawn_at >= TIMES_MS:
            self._changed = False
            self._drawn_at = now
            self._draw_rows()
        self._draw_detail()

    def _draw_head(self) -> None:
        server = self.model.server
        up = format_duration(int(server.get("uptime_ms", 0)) // 1_000 * 1_000)
        done, failed = self.model.rates(self._clock())
        state = "paused" if self._paused else self.state
        lists = "   ".join(
            f"[{TITLES[name]} {self.model.lists[name].total:,}]" if name == self.list
            else f" {TITLES[name]} {self.model.lists[name].total:,} "
            for name in LISTS
        )  # fmt: skip
        first = f"{printable(self._url)}  {state}"
        second = f"version {printable(server.get('version', '?'))}  up {up}  {done:.0f} done/s  {failed:.0f} failed/s"
        self.query_one("#head", Static).update(
            Text(f"{first}\n{second}\n{lists}", no_wrap=True, overflow="ellipsis")
        )

    def _draw_rows(self) -> None:
        table, now = self._table, self._clock()
        of = self.model.lists[self.list]
        table.clear()
        for job_id, job in of.rows.items():
            table.add_row(*map(Text, cells(self.list, job, now)), key=job_id)
        ids = [*of.rows]
        if not ids:
            return
        wanted = self._cursor.get(self.list)
        # Where its job is gone, the cursor stays on its row.
        row = ids.index(wanted) if wanted in of.rows else min(self._row.get(self.list, 0), len(ids) - 1)
        self._cursor[self.list], self._row[self.list] = ids[row], row
        table.move_cursor(row=row)

    def _draw_detail(self) -> None:
        panel = self.query_one("#detail", Static)
        panel.display = self._detail
        job = self._job()
        if self._detail and job is not None:
            parts = [f"{label}: {value}" for label, value in details(job, self._clock())]
            panel.update(Text("   ".join(parts)))
        elif self._detail:
            panel.update(Text("no job"))

    def _job(self) -> Any:
        return self.model.lists[self.list].rows.get(self._cursor.get(self.list, ""))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Note the job under the cursor, and look further where it has come to an end of the window."""
        job_id, row = event.row_key.value, event.cursor_row
        if job_id is None or row != self._table.cursor_row or job_id == self._cursor.get(self.list):
            return  # it was drawn, not moved
        self._cursor[self.list], self._row[self.list] = job_id, row
        of = self.model.lists[self.list]
        if row == len(of.rows) - 1 and of.first + len(of.rows) < of.total:
            self._subscribe(kind="offset", offset=of.first + len(of.rows) // 2)
        elif row == 0 and of.first > 0:
            self._subscribe(kind="offset", offset=max(0, of.first - len(of.rows) // 2))

    # ---- what people do

    def action_turn(self, by: int) -> None:
        """Show another list."""
        self.list = LISTS[(LISTS.index(self.list) + by) % len(LISTS)]
        self._columns()
        self._changed = True
        self._redraw()

    def action_go(self, kind: str) -> None:
        """Go to the first or the last job of the list."""
        self._cursor.pop(self.list, None)
        self._row[self.list] = 0 if kind == "head" else ROWS
        self._changed = True
        self._subscribe(kind=kind)

    def action_detail(self) -> None:
        """Show more of the job under the cursor, or no longer."""
        self._detail = not self._detail
        self._send(type="set_detail_level", detail=self._detail)
        self._redraw()

    def action_pause(self) -> None:
        """Let the screen stand still, or go on."""
        self._paused = not self._paused
        if not self._paused:
            self._subscribe(kind="head")  # what was missed comes as a whole
        self._redraw()

    def action_find(self) -> None:
        """Ask what to look for."""
        terms = self.query_one("#terms", Input)
        terms.value = ""
        terms.display = True
        self.set_focus(terms)  # at once: the next key is meant for it

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Look for the first job that fits."""
        self._close_terms()
        words = event.value.split()
        if not words:
            return
        queues = [word.removeprefix("queue=") for word in words if word.startswith("queue=")]
        self._query = {"queues": queues, "types": [word for word in words if not word.startswith("queue=")]}
        self._find("forward", {"kind": "start"})

    def action_leave(self) -> None:
        """Leave the question what to look for."""
        self._close_terms()

    def _close_terms(self) -> None:
        self.query_one("#terms", Input).display = False
        self.set_focus(self._table)

    def action_next(self, direction: str) -> None:
        """Look for the next job that fits, or the one before."""
        if self._query:
            job_id = self._cursor.get(self.list)
            end = "start" if direction == "forward" else "end"
            self._find(direction, {"kind": "job_id", "id": job_id} if job_id else {"kind": end})

    def _find(self, direction: str, anchor: dict[str, str]) -> None:
        self._send(
            type="find", list=self.list, anchor=anchor, direction=direction, query=self._query, limit=ROWS
        )

    def _look_at_found(self) -> None:
        """Go to the job that a search has found."""
        found, self.model.found = self.model.found, None
        if found is None:
            return
        name, job_id = found
        if job_id is None:
            self.notify("no such job", timeout=3)
        elif name == self.list:
            self._cursor[name] = job_id
            self._subscribe(kind="around", id=job_id, fallback="head")

    def action_delete(self) -> None:
        """Delete the job under the cursor, if that is meant."""
        job = self._job()
        if job is None:
            return

        def answered(meant: bool | None) -> None:
            if meant:
                self._send(type="delete_job", id=job["id"])

        name = f"{printable(job['job_type'])} {printable(job['id'])}"
        self.push_screen(Confirm(f"Delete {name}?"), answered)
