"""Starts a server as its own process, watches what it uses, and ends it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

OURS = [sys.executable, "-m", "anew", "serve", "--global-in-flight-limit", "0", "--no-admin"]
"""Our server, without the limit on jobs in flight that would bound a take instead of the server."""

START_S = 60
STOP_S = 30
_LOOK_S = 0.02
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a process has used: seconds of CPU since its start, megabytes of memory resident now."""

    cpu_s: float
    rss_mb: float


class Server:
    """One server under measurement, started on a free port with a directory of its own.

    Args:
        name: How the report calls it.
        command: Its command line; the port, the directory and the form of the log are appended.
        root: Where its data go. Removed when the server stops.

    Raises:
        RuntimeError: It ended, or said nothing, before it listened.
    """

    def __init__(self, name: str, command: list[str], root: Path) -> None:
        self.name = name
        self._root = root
        root.mkdir(parents=True)
        line = [*command, "--port", "0", "--root-dir", str(root / "data"), "--log-format", "json"]
        self._log = root / "log"
        with self._log.open("wb") as log:  # a pipe that nobody reads would stop a talkative server
            self._process = subprocess.Popen(
                line, stdout=log, stderr=log, env=os.environ | {"ANEW_FWP_PORT": "0"}
            )
        try:
            self.port = self._listening()
        except BaseException:
            self.stop()
            raise

    def port_of(self, api: str) -> int:
        """Give the port of another door, as the log names it."""
        return self._listening(api)

    def _listening(self, api: str = "primary") -> int:
        """Read the log until the line that names the port is there."""
        until = time.monotonic() + START_S
        ended = False
        while time.monotonic() < until and not ended:
            ended = self._process.poll() is not None
            for line in self._log.read_bytes().splitlines():
                if port := _port(line, api):
                    return port
            time.sleep(_LOOK_S)
        raise RuntimeError(f"{self.name} did not listen within {START_S} s: {self.log_end()}")

    def log_end(self) -> str:
        """Give the end of what the server has logged."""
        return self._log.read_text(errors="replace").strip()[-500:]

    def usage(self) -> Usage:
        """Read the process's figures from /proc."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        rss = re.search(r"VmRSS:\s+(\d+) kB", status)
        return Usage(_cpu_s(self._process.pid), int(rss[1]) / 1024 if rss else 0.0)

    def stop(self) -> None:
        """End the process, by force if it lingers, and remove its directory."""
        end(self._process, self._root)


def end(process: subprocess.Popen[bytes], root: Path) -> None:
    """End a server's process, by force if it lingers, and remove its directory."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(root, ignore_errors=True)


def tree_cpu_s(pid: int) -> float:
    """Add up the seconds of CPU of a process and of its children that run."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return _cpu_s(pid) + sum(tree_cpu_s(int(child)) for child in children)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _port(line: bytes, api: str) -> int:
    """Read the port of a door from the log line that says `listening`; 0 for any other line."""
    try:
        fields = json.loads(line)["fields"]
    except (ValueError, KeyError, TypeError):
        return 0
    if fields.get("message") != "listening" or fields.get("api", "primary") != api:
        return 0
    return int(fields["addr"].rpartition(":")[2])


def start_all(peer: str | None, work_dir: Path) -> list[Server]:
    """Start our server and, if a peer's command line is given, the peer beside it."""
    work_dir.mkdir(parents=True, exist_ok=True)
    root = work_dir / f"run-{os.getpid()}-{time.monotonic_ns()}"
    servers = [Server("anew", OURS, root.with_suffix(".anew"))]
    if peer is not None:
        try:
            servers.append(Server("peer", [*shlex.split(peer), "--no-admin"], root.with_suffix(".peer")))
        except BaseException:
            servers[0].stop()
            raise
    return servers


def settle(servers: list[Server], limit_s: float = 5.0) -> None:
    """Wait until no server works on what is behind it (at most 5 % of a core), or for `limit_s`.

    What is still to be written is written first, lest one server's sync wait for another's data.
    """
    os.sync()
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        before = [server.usage().cpu_s for server in servers]
        time.sleep(0.2)
        if all(server.usage().cpu_s - was <= 0.01 for server, was in zip(servers, before, strict=True)):
            return
