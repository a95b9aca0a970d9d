"""The lab's page in a real browser: opened, watched for everything that it must not do, and read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from .wire import Address

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

DRAWN = "document.documentElement.dataset.drawn"

VIOLATIONS = (
    "document.addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective))"
)


def chromium() -> str:
    """The system's Chromium, or a skip that says how to get it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    return found


class Windows:
    """Windows of one browser, each with a profile of its own. Without options the same one is given again and again, emptied.

    A window takes a second of the processor, a tab in one that is there a quarter.
    """

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._usual: Any = None
        self._in_use = False

    def take(self, **options: Any) -> Any:
        """Give the context of a window that nobody has."""
        if options or self._in_use:
            return self._new(**options)
        if self._usual is None:
            self._usual = self._new()
            self._usual.new_page()  # with its last tab the window would close
        self._in_use = True
        return self._usual

    def leave(self, context: Any, page: Any) -> None:
        """Have the next one find nothing of what this tab has left."""
        if context is not self._usual:
            context.close()
            return
        page.evaluate("() => { try { localStorage.clear() } catch {} }")  # a page that was not found has none
        page.close()
        context.clear_cookies()
        self._in_use = False

    def _new(self, **options: Any) -> Any:
        context = self._browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        context.add_init_script(VIOLATIONS)
        return context


class LabPage:
    """One tab.

    Args:
        windows: In one of which it is opened.
        address: The server's.
        options: Of the browser's context, such as ``color_scheme``.

    Attributes:
        page: Playwright's.
        wrong: What no page may do: errors in the console, violations of its policy, requests to other hosts.
    """

    def __init__(self, windows: Windows, address: Address, **options: Any) -> None:
        self.base = f"http://{address[0]}:{address[1]}"
        self.wrong: list[str] = []
        self._windows = windows
        self._context = windows.take(**options)
        self.page = self._context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.on("dialog", lambda dialog: (self.wrong.append("a dialog"), dialog.dismiss()))

    def open(self, query: str = "") -> LabPage:
        """Open the lab and wait until it is drawn."""
        self.page.goto(f"{self.base}/lab{query}")
        self.page.wait_for_function(f"() => {DRAWN}")
        return self

    def data(self) -> Any:
        """What the page draws now."""
        return json.loads(self.page.locator("#data").text_content() or "")

    def drawn(self) -> str:
        """The address of the state that is drawn."""
        return str(self.page.evaluate(DRAWN))

    def address(self) -> str:
        """The tab's address once it is that of what is drawn: it is written when a slider rests."""
        self.page.wait_for_function(f"() => location.pathname + location.search === {DRAWN}")
        return str(self.page.url)

    def await_change(self, before: str) -> Any:
        """Wait until another state than this is drawn; give its data."""
        self.page.wait_for_function(f"before => {DRAWN} && {DRAWN} !== before", arg=before)
        return self.data()

    def set(self, selector: str, text: str) -> Any:
        """Type into a box and wait for the new picture."""
        before = self.drawn()
        self.page.locator(selector).fill(text)
        return self.await_change(before)

    def canvas(self, place: str) -> str:
        """The pixels of a chart."""
        return str(self.page.locator(f"{place} canvas").first.evaluate("canvas => canvas.toDataURL()"))

    def width(self) -> tuple[int, int]:
        """How wide the document is, and how wide the window."""
        wide, window = self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        return wide, window

    def close(self) -> None:
        """Close the tab, and insist that it behaved."""
        self._windows.leave(self._context, self.page)
        assert self.wrong == []

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" != self.base and parts.scheme != "data":
            self.wrong.append(f"request: {request.url}")


def hold_first(page: Any, act: Callable[[], object], asked: str = "**/lab?*") -> list[Any]:
    """Do something that asks for a picture, and hold what it asks, in a list; what is asked later passes."""
    held: list[Any] = []
    page.route(asked, lambda route: route.continue_() if held else held.append(route))
    with page.expect_request(asked):
        act()
    while (
        not held
    ):  # the request is heard of just before it can be held: one more word with the browser brings it
        page.evaluate("0")
    return held


def slider(name: str) -> str:
    """Where the slider of a value is."""
    return f'input.slide[data-name="{name}"]'


def box(name: str) -> str:
    """Where its box is."""
    return f'[name="{name}"]'


def step_down(lab: LabPage, name: str, steps: int) -> None:
    """Move a slider down by keyboard, each step when the one before is drawn."""
    lab.page.locator(slider(name)).focus()
    for _ in range(steps):
        before = lab.drawn()
        lab.page.keyboard.press("ArrowLeft")
        lab.await_change(before)


def drag(lab: LabPage, name: str, share: float) -> Any:
    """Drag a slider with the mouse to a share of its width; give the new data."""
    before = lab.drawn()
    track = lab.page.locator(slider(name))
    track.scroll_into_view_if_needed()
    room = track.bounding_box()
    middle = room["y"] + room["height"] / 2
    lab.page.mouse.move(room["x"] + room["width"] / 2, middle)
    lab.page.mouse.down()
    lab.page.mouse.move(room["x"] + room["width"] * share, middle, steps=4)
    lab.page.mouse.up()
    return lab.await_change(before)
