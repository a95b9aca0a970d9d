"""The documents against the real server: the README's lines run, the routes and metrics listed are those served."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.docs import README, ROOT, blocks

from .client import Client
from .command import url_of
from .server import START_TIMEOUT_S, ServerProcess, environment

DOCS = ROOT / "docs"


def shell(script: str, server: ServerProcess, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block of shell as it stands, but for the server's address; any failing line ends it."""
    tool = folder / "bin" / "anew"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m anew "$@"\n')
    tool.chmod(0o755)
    variables = {"ANEW_URL": url_of(server.address), "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    script = script.replace("127.0.0.1:7890", f"127.0.0.1:{server.address[1]}")
    return subprocess.run(
        ["sh", "-e", "-c", script],
        capture_output=True,
        text=True,
        timeout=2 * START_TIMEOUT_S,
        env=environment() | variables | {"NO_COLOR": "1"},
        cwd=folder,
        check=False,
    )


def needs_curl() -> None:
    """Skip where there is no curl, or none that knows ``--json``."""
    shown = (
        shutil.which("curl")
        and subprocess.run(["curl", "--help", "all"], capture_output=True, text=True, check=False).stdout
    )
    if not shown or "--json" not in shown:
        pytest.skip("curl 7.82 or newer is needed")


def test_the_fifteen_lines_run(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> None:
    needs_curl()
    (script,) = (block.text for block in blocks(README, "sh") if "curl --json" in block.text)
    assert len(script.splitlines()) <= 15
    done = shell(script, fresh_server(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"status":"ready"' in done.stdout  # curl's answer
    assert 'Hello, {"name": "Ada"}\nHello, {"name": "Grace"}\n' in done.stdout
    assert "3 retries; retry 3 comes 5 s to 11 s after the first failure" in done.stdout
    assert re.search(r"failed +\w+ call exit status 1 after .*; failure 1, retry in", done.stderr)
    assert re.search(
        r"call +web +(scheduled +1 +retry 1 in|ready +1 )", done.stdout
    )  # due by now on a slow machine
    assert re.search(r"^web +[01] +[01] +0 +0 +0$", done.stdout, re.MULTILINE)  # waiting, or due by now
    assert done.stdout.endswith('called {"to": "Ada"}\n')
    assert len(re.findall("completed", done.stderr)) == 3


def test_the_policies_over_http_are_taken(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> None:
    needs_curl()
    script, again, search = (block.text for block in blocks(DOCS / "http-api.md", "sh"))
    server = fresh_server()
    done = shell(script.replace("curl", "curl --fail-with-body"), server, tmp_path)
    assert done.returncode == 0, done.stdout
    client = Client(server.address)
    assert client.count(queue="web") == len(script.splitlines())
    for time in ("first", "second"):
        (tmp_path / time).mkdir()
        assert not shell(again.replace("curl", "curl --fail-with-body"), server, tmp_path / time).returncode
    assert client.count(queue="shop") == 1
    urgent = {"user_id": 42, "tags": ["urgent"]}
    for payload in (urgent, {"user_id": 42, "tags": []}, {"user_id": 43}, None):
        client.enqueue("mail", payload=payload)
    client.close()
    (tmp_path / "search").mkdir()
    done = shell(search.replace("curl", "curl --fail-with-body -s"), server, tmp_path / "search")
    assert [job["payload"] for job in json.loads(done.stdout)["jobs"]] == [urgent]


@pytest.mark.parametrize(
    "script", [block.text for block in blocks(DOCS / "client.md", "python")], ids=["blocking", "awaited"]
)
def test_the_clients_examples_run(fresh_server: Callable[..., ServerProcess], script: str) -> None:
    server = fresh_server()
    done = subprocess.run(
        [sys.executable, "-c", script.replace("http://127.0.0.1:7890", url_of(server.address))],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 101


def test_every_route_is_documented_and_no_other(client: Client) -> None:
    served = {
        f"{method.upper()} {path}"
        for path, methods in json.loads(client.get("/openapi.json").body)["paths"].items()
        for method in methods
    }
    of_the_admin_listener = {"GET /events", "POST /backup", "POST /compact"}
    text = (DOCS / "http-api.md").read_text("utf-8")
    named = set(re.findall(r"`((?:GET|POST|PATCH|DELETE|PUT) /[^`]*)`", text))
    assert named == served | of_the_admin_listener


def test_every_metric_that_is_documented_is_served(client: Client) -> None:
    shown = client.get("/metrics").body.decode()
    served = set(re.findall(r"^# TYPE (\w+) ", shown, re.MULTILINE))
    text = (DOCS / "operations.md").read_text("utf-8")
    documented = set(re.findall(r"`(anew_\w+)(?:\{[\w,]+\})?`", text)) - {
        "anew_tls_certificate_expiry_timestamp_seconds"  # of a server that has one
    }
    assert {name.removesuffix("_total") for name in documented} == {
        name.removesuffix("_total") for name in served
    }
