"""What a type checker says of an application: the parameters are the function's, and so is the result."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

APPLICATION = Path(__file__).with_name("application.py")


def test_mypy_finds_the_wrong_calls_and_nothing_else(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(APPLICATION)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    wrong = [n for n, line in enumerate(APPLICATION.read_text().splitlines(), 1) if "# wrong" in line]
    found = sorted({int(n) for n in re.findall(rf"{APPLICATION.name}:(\d+): error", done.stdout)})
    assert found == wrong, done.stdout
