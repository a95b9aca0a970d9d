"""What mypy says of both clients: each verb has its parameters and its result, and one that is awaited must be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CLIENTS = Path(__file__).with_name("clients.py")


def test_mypy_finds_the_wrong_calls_of_the_clients_and_nothing_else(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(CLIENTS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    wrong = [n for n, line in enumerate(CLIENTS.read_text().splitlines(), 1) if "# wrong" in line]
    found = sorted({int(n) for n in re.findall(rf"{CLIENTS.name}:(\d+): error", done.stdout)})
    assert found == wrong, done.stdout
