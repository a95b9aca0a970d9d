"""`python -m bench.page`: how long the lab's page takes from a slider's move to the new picture, in real Chromium."""

import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.report import machine, markdown

PAGES: Final = {
    "two policies": "?a=even&b=sidekiq&jobs=10000",
    "two, an outage of 1 h": "?a=even&b=sidekiq&jobs=10000&outage=1h",
    "three, an outage of 1 h": "?a=even&b=sidekiq&c=zizq&jobs=10000&outage=1h",
}
"""What is open, with 10,000 jobs each."""

MOVES: Final = 21
"""The first one warms up and is not counted."""

_FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

# Moves the slider of A's limit as a hand does; tells the milliseconds until a frame with the new picture is painted.
_MOVE: Final = """share => new Promise(done => {
  const slider = document.querySelector('input.slide[data-name="a.limit"]');
  const begun = performance.now();
  new MutationObserver((_, watch) => {
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
  }).observe(document.documentElement, { attributeFilter: ['data-drawn'] });
  slider.value = +slider.min + share * (slider.max - slider.min);
  slider.dispatchEvent(new Event('input', { bubbles: true }));
})"""


def main() -> int:
    """Measure, and print a table."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("needs Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    from playwright.sync_api import sync_playwright

    rows = []
    with _lab() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        for name, query in PAGES.items():
            took = sorted(_moved(browser, url + query))
            cells = (took[0], statistics.median(took), took[-1])
            rows.append([name, *(f"{ms:.0f}" for ms in cells)])
    print(machine(Path(__file__).parent))
    print(markdown(["page", "least ms", "median ms", "most ms"], rows))
    return 0


@contextmanager
def _lab() -> Iterator[str]:
    """A lab of its own; gives its address."""
    command = [sys.executable, "-m", "anew", "lab", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.terminate()


def _moved(browser: Any, url: str) -> list[float]:
    """Open a page and move a slider some times, between two places that both draw anew; give the milliseconds."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    page.wait_for_function("() => document.documentElement.dataset.drawn")
    took = [page.evaluate(_MOVE, 0.3 + 0.02 * move) for move in range(MOVES)]
    page.close()
    return took[1:]


if __name__ == "__main__":
    sys.exit(main())
