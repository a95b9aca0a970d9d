"""``anew lab`` and the lab of ``anew serve`` as processes: who is let in, what is computed where, how it ends."""

from __future__ import annotations

import base64
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import pytest

from .server import START_TIMEOUT_S, STOP_TIMEOUT_S, ServerProcess, environment, run

HEAVY = (
    "/lab?jobs=100000&" + "&".join(f"{letter}=zizq&{letter}.limit=30" for letter in "abcd") + "&outage=20d"
)


class NoRedirect(HTTPRedirectHandler):
    """Shows redirections as they are."""

    def redirect_request(self, *_: object) -> None:
        return None


def get(url: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Ask as a browser would."""
    request = Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with build_opener(NoRedirect).open(request, timeout=60) as answer:
            return (
                answer.status,
                {name.lower(): value for name, value in answer.headers.items()},
                answer.read(),
            )
    except HTTPError as error:
        return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()


def url_of(server: ServerProcess) -> str:
    return f"http://{server.address[0]}:{server.address[1]}"


def children(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Callable[..., tuple[str, subprocess.Popen[str]]]]:
    """Start ``anew lab``; give the address that it prints."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> tuple[str, subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "anew", "lab", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=tmp_path,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()
        found = re.search(r"http://\S+/lab", lines.get(timeout=START_TIMEOUT_S))
        assert found is not None
        return found[0], process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(STOP_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("words", [("--port", "0"), ("open", "--port", "0")])
def test_the_lab_alone(
    lab: Callable[..., tuple[str, subprocess.Popen[str]]], tmp_path: Path, words: tuple[str, ...]
) -> None:
    url, process = lab(*words)
    status, headers, body = get(url)
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "15\u00a0s to 53\u00a0s".encode() in body
    status, headers, _ = get(url.removesuffix("lab"))
    assert (status, headers["location"]) == (303, "/lab")
    assert get(url.replace("/lab", "/jobs"))[0] == 404  # there is no store
    assert list(tmp_path.iterdir()) == []
    (helper,) = children(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(STOP_TIMEOUT_S) == 0
    assert not Path(f"/proc/{helper}").exists()


def test_every_file_that_the_page_names_is_served(
    lab: Callable[..., tuple[str, subprocess.Popen[str]]],
) -> None:
    url, _ = lab("--port", "0")
    named = re.findall(rb'(?:src|href)="(/static/[^"]+)"', get(url)[2])
    assert len(named) >= 6
    for path in named:
        status, headers, body = get(url.removesuffix("/lab") + path.decode())
        assert status == 200
        assert body
        assert headers["x-content-type-options"] == "nosniff"
        assert "immutable" in headers["cache-control"]


def test_beyond_loopback_it_wants_a_token_or_a_word() -> None:
    ended = run("lab", "--host", "0.0.0.0", "--port", "0")
    assert ended.returncode == 5
    assert "others could reach this server" in ended.stderr
    assert run("lab", "--port", "nowhere").returncode == 2


def test_a_token_is_a_browsers_password(fresh_server: Callable[..., ServerProcess]) -> None:
    base = url_of(fresh_server(token="s3cret"))
    status, headers, _ = get(f"{base}/lab")
    assert status == 401
    assert headers["www-authenticate"].startswith("Basic")
    password = "Basic " + base64.b64encode(b"me:s3cret").decode()
    assert get(f"{base}/lab", Authorization=password)[0] == 200
    assert get(f"{base}/queues", Authorization=password)[0] == 401
    assert get(f"{base}/lab", Host="evil.example", Authorization=password)[0] == 403


def test_a_server_starts_nothing_before_somebody_looks(fresh_server: Callable[..., ServerProcess]) -> None:
    server = fresh_server()
    assert get(f"{url_of(server)}/health")[0] == 200
    assert children(server.pid) == []
    get(f"{url_of(server)}/lab")
    (helper,) = children(server.pid)
    assert server.terminate() == 0
    assert not Path(f"/proc/{helper}").exists()


def test_the_server_does_not_feel_a_computation(fresh_server: Callable[..., ServerProcess]) -> None:
    server = fresh_server()
    base = url_of(server)
    get(f"{base}/lab")  # the process is there
    heavy = threading.Thread(target=get, args=(base + HEAVY,))
    heavy.start()
    took = []
    while heavy.is_alive():
        begun = time.monotonic()
        assert get(f"{base}/health")[0] == 200
        took.append(time.monotonic() - begun)
    heavy.join()
    assert took
    assert sorted(took)[len(took) // 2] < 0.25


def test_a_computation_that_takes_too_long_is_ended(fresh_server: Callable[..., ServerProcess]) -> None:
    """Stopped by a signal, the process stands for one that computes without end."""
    server = fresh_server()
    base = url_of(server)
    get(f"{base}/lab")
    (first,) = children(server.pid)
    os.kill(first, signal.SIGSTOP)
    status, _, body = get(f"{base}/lab?a=zizq&a.base=20s")
    assert status == 200
    assert b"this takes longer than 2 s to compute" in body
    assert b'value="20s"' in body  # the form is as it was
    (second,) = children(server.pid)
    assert second != first


def test_the_largest_page_is_made_or_refused_in_words(fresh_server: Callable[..., ServerProcess]) -> None:
    base = url_of(fresh_server())
    status, _, body = get(base + HEAVY)
    assert status == 200
    assert b"<h2>" in body
