"""``anew tls``: what it makes, what it keeps, and that what it says to type next works as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .server import ServerProcess, environment, run

FILES = ["ca-cert.pem", "ca-key.pem", "server-cert.pem", "server-key.pem"]


def tls(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = run("tls", *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_init_makes_an_authority_a_server_and_clients(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    tls("init", "--out-dir", str(folder), "--client", "a", "--client", "b.c")
    clients = [f"client-{name}-{half}.pem" for name in ("a", "b.c") for half in ("cert", "key")]
    assert sorted(content(folder)) == sorted([*FILES, *clients])
    modes = {name: (folder / name).stat().st_mode & 0o777 for name in content(folder)}
    assert {mode for name, mode in modes.items() if name.endswith("-key.pem")} == {0o600}


def test_init_keeps_what_is_there_and_adds_what_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    tls("init", "--out-dir", str(folder), "--san", "first.example")
    before = content(folder)
    done = tls("init", "--out-dir", str(folder), "--client", "new")
    after = content(folder)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"client-new-cert.pem", "client-new-key.pem"}
    assert f"kept  {folder / 'server-cert.pem'}" in done.stdout
    assert "https://first.example:7890" in done.stdout, "the names are those of the certificate that is there"
    tls("init", "--out-dir", str(folder), "--overwrite")
    assert all(content(folder)[name] != before[name] for name in before)


def test_init_uses_another_authority_and_says_what_that_has_not_issued(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    tls("ca", "--out-dir", str(theirs), "--cn", "Their CA")
    named = ("--ca-cert", str(theirs / "ca-cert.pem"), "--ca-key", str(theirs / "ca-key.pem"))
    tls("init", "--out-dir", str(ours), *named)
    assert sorted(content(ours)) == ["server-cert.pem", "server-key.pem"]
    tls("ca", "--out-dir", str(ours))
    done = tls("init", "--out-dir", str(ours))
    assert "another authority has issued it, see --overwrite" in done.stdout


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("ca",), ("ca-cert.pem", "ca-key.pem")),
        (("server-cert",), ("server-cert.pem", "server-key.pem")),
        (("client-cert", "--name", "w"), ("client-w-cert.pem", "client-w-key.pem")),
    ],
)
def test_the_others_fail_where_a_file_is_there(
    tmp_path: Path, words: tuple[str, ...], made: tuple[str, str]
) -> None:
    folder = tmp_path / "tls"
    if words[0] != "ca":
        tls("ca", "--out-dir", str(folder))
    tls(*words, "--out-dir", str(folder))
    before = content(folder)
    assert set(made) <= before.keys()
    refused = tls(*words, "--out-dir", str(folder), code=5)
    assert "is there already; expected none, or --overwrite" in refused.stderr
    assert content(folder) == before
    (folder / made[0]).unlink()
    tls(*words, "--out-dir", str(folder), code=5)
    tls(*words, "--out-dir", str(folder), "--overwrite")
    assert content(folder)[made[1]] != before[made[1]]


def test_the_folder_is_that_of_the_data_directory(tmp_path: Path) -> None:
    tls("ca", "--root-dir", str(tmp_path / "data"))
    assert (tmp_path / "data" / "tls" / "ca-cert.pem").exists()
    tls("ca", "--root-dir", str(tmp_path / "jobs.db"))
    assert (tmp_path / "tls" / "ca-cert.pem").exists()


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "cryptography.py").write_text("raise ModuleNotFoundError(name='cryptography')")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "anew", "tls", "ca"],
        capture_output=True,
        text=True,
        env=environment() | {"PYTHONPATH": paths},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 5
    assert "pip install 'anew[tls]'" in done.stderr


@pytest.mark.parametrize("clients", [(), ("--client", "laptop")])
def test_what_it_says_to_type_next_works(tmp_path: Path, clients: tuple[str, ...]) -> None:
    """As a newcomer would: only the ports are others, for other servers of this machine."""
    root = tmp_path / "data"
    shown = json.loads(tls("init", "--root-dir", str(root), "--json", *clients).stdout)
    steps = [step for step in shown["next"] if step.startswith(("anew ", "export "))]
    exports = [step.removeprefix("export ").partition("=") for step in steps if step.startswith("export ")]
    variables = {name: value for name, _, value in exports}
    assert bool(variables) is not bool(clients)
    serve, job = (shlex.split(step) for step in steps if step.startswith("anew "))
    assert serve[:4] == ["anew", "serve", "--host", "0.0.0.0"]
    named: dict[str, Any] = dict(zip(serve[4::2], serve[5::2], strict=True))
    flags = {name.lstrip("-").replace("-", "_"): value for name, value in named.items()}
    server = ServerProcess(root, host="0.0.0.0", token=variables.get("ANEW_TOKEN"), **flags)
    port = server.address[1]
    words = [re.sub(r"^https://localhost:7890$", f"https://localhost:{port}", word) for word in job]
    assert words != job
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        env=environment() | variables,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "greet on hello, ready" in done.stdout
    without = [word for word in words if "client" not in word]
    stranger = subprocess.run(
        [sys.executable, "-m", *without], capture_output=True, text=True, env=environment(), check=False
    )
    assert stranger.returncode in (3, 5)
    assert server.terminate() == 0
    server.close()
