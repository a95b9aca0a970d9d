"""What type checkers say of applications: the parameters are the function's, and so is the result.

The examples are the other files here. Lines that end in ``# wrong: ...`` must be errors, and no others may be.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anew

EXAMPLES = [
    path for path in sorted(Path(__file__).parent.glob("*.py")) if path.stem[:5] not in ("test_", "__ini")
]
WRONG = {
    (path.name, number)
    for path in EXAMPLES
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
    if "# wrong: " in line
}


def test_there_are_examples() -> None:
    assert {path.name for path in EXAMPLES} == {"application.py", "clients.py", "telemetry.py", "topics.py"}
    assert len(WRONG) == 16


def test_mypy_finds_the_wrong_lines_and_nothing_else(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *map(str, EXAMPLES)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    found = {(Path(path).name, int(n)) for path, n in re.findall(r"^(\S+):(\d+): error", done.stdout, re.M)}
    assert found == WRONG, done.stdout


def test_pyright_finds_the_wrong_lines_and_nothing_else(tmp_path: Path) -> None:
    """Its program and Node come from wheels: with nowhere to download from it says the same, and it leaves no cache behind."""
    source = Path(anew.__file__).parents[1]
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(source)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    for path in EXAMPLES:
        shutil.copy(path, tmp_path)
    words = [
        sys.executable,
        "-m",
        "pyright",
        "-p",
        str(tmp_path),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    home = tmp_path / "home"
    home.mkdir()
    alone = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "PYRIGHT_PYTHON_GLOBAL_NODE": "0",
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    }
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=300, env=os.environ | nowhere | alone
    )
    answer = json.loads(done.stdout)
    wrong = [one for one in answer["generalDiagnostics"] if one["severity"] != "information"]
    found = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in wrong}
    assert found == WRONG, done.stdout
    assert answer["version"] == importlib.metadata.version("pyright")
    assert [*home.iterdir()] == []
