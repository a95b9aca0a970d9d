"""Children of tests have the default signals, also where the tests were started as a background job."""

from __future__ import annotations

import subprocess
import sys

from tests.signals import STOPS, ignored

from .docs import ROOT

SCRIPT = """
import subprocess, sys
from tests.signals import undo_ignored_signals
undo_ignored_signals()
child = "import signal; print([int(n) for n in (1, 2, 15) if signal.getsignal(n) is signal.SIG_IGN])"
subprocess.run([sys.executable, "-c", child], check=True)
"""


def test_children_have_the_default_handling_under_nohup_and_in_the_background() -> None:
    with ignored(STOPS[0]), ignored(STOPS[1]), ignored(STOPS[2]):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
    assert done.stdout == "[]\n"
