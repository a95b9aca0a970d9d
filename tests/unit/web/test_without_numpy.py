"""The page without NumPy: slower, and the same."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
if {hidden}:
    sys.modules["numpy"] = None
from anew.web.messages import Ask
from anew.web.page import make
made = make(Ask(b"a=even&b=sidekiq&jobs=40&outage=1h&herd=heat"))
sys.stdout.buffer.write(made.html)
"""


def test_the_page_is_the_same_without_numpy() -> None:
    pages = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT.format(hidden=hidden)], capture_output=True, timeout=60, check=True
        ).stdout
        for hidden in (False, True)
    ]
    first, second = (page.partition(b'id="words-curve"')[2].partition(b'id="data"')[0] for page in pages)
    assert first
    assert first == second
