"""The servers that some queues need, each with every commit synced, in a folder of its own and gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Fresh = Callable[[str], str]
"""Takes the name of a load, empties the server or makes a database of that name; returns its URL."""


@contextmanager
def no_service(folder: Path) -> Iterator[Fresh]:
    """A queue on files of its own."""
    yield lambda load: ""


@contextmanager
def redis(folder: Path) -> Iterator[Fresh]:
    """Redis, which appends each command to a file and syncs it before it answers."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def fresh(load: str) -> str:
        with connected(port) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            if connection.recv(100) != b"+OK\r\n":
                raise SystemExit("Redis does not empty itself")
        return f"redis://127.0.0.1:{port}/0"

    try:
        yield fresh
    finally:
        process.kill()
        process.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[Fresh]:
    """PostgreSQL with its defaults: `fsync` and `synchronous_commit` are on. For root it runs as nobody."""
    port, data = free_port(), folder / "data"
    data.mkdir()
    user: list[str] = []
    if os.geteuid() == 0:
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        for path in (folder, *folder.parents[:1]):
            path.chmod(0o755)
        shutil.chown(data, "nobody", "nogroup")
    making = [*user, program("initdb"), "-D", str(data), "-U", "bench", "-A", "trust"]
    subprocess.run(making, check=True, stdout=subprocess.DEVNULL, cwd=data)
    command = [*user, program("postgres"), "-D", str(data), "-p", str(port), "-k", str(data)]
    with open(folder / "postgres.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=data)

    def fresh(load: str) -> str:
        connected(port).close()
        where = ["-h", "127.0.0.1", "-p", str(port), "-U", "bench"]
        while subprocess.run([program("pg_isready"), "-q", *where]).returncode:
            time.sleep(0.05)
        subprocess.run([program("createdb"), *where, load], check=True)
        return f"postgresql://bench@127.0.0.1:{port}/{load}"

    try:
        yield fresh
    finally:
        process.terminate()  # waits for its clients: they are gone by then
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs; Debian has most of them beside the server and not on the path."""
    server = shutil.which("postgres")
    beside = Path(server).resolve().with_name(name) if server else None
    found = str(beside) if beside and beside.exists() else shutil.which(name)
    if found is None:
        raise SystemExit(f"PostgreSQL's {name} is not installed")
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def connected(port: int, timeout_s: float = 20.0) -> socket.socket:
    """A connection to a server that may only be starting."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
