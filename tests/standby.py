"""A PostgreSQL primary and its standby, which a test may crash and promote."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from tests.database import START_S, UNPRIVILEGED
from tests.postgres import server as usual_server
from tests.waiting import until

SETTINGS = (
    "wal_keep_size=256MB",
    "max_wal_size=256MB",
    "autovacuum=off",
    "wal_retrieve_retry_interval=100ms",
)


class Node:
    """One server, with a port of its own on this machine.

    Args:
        place: An empty directory.
    """

    def __init__(self, place: Path) -> None:
        given = os.environ.get("ANEW_TEST_POSTGRES")  # the directory of another version's programs
        self._programs = Path(given) if given else Path(usual_server().bin_path)
        self._as = {"user": UNPRIVILEGED, "group": UNPRIVILEGED} if os.geteuid() == 0 else {}
        self._place, self.data = place, place / "data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def initialize(self) -> None:
        """Make a cluster."""
        self._make_place()
        self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(self.data))

    def follow(self, primary: Node) -> None:
        """Throw away what there is, and start as a standby of another server."""
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)
        self._make_place()
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres", "-D", str(self.data)]
        self._run("pg_basebackup", *source, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def _make_place(self) -> None:
        self.data.mkdir(mode=0o700)
        if self._as:
            shutil.chown(self.data, UNPRIVILEGED, UNPRIVILEGED)

    def start(self, *settings: str) -> None:
        """Start it, each setting as ``name=value``; return when it answers."""
        given = [word for setting in (*SETTINGS, *settings) for word in ("-c", setting)]
        words = [
            self._programs / "postgres",
            "-D",
            self.data,
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-k",
            "",
        ]
        with (self._place / "log").open("ab") as log:
            self._process = subprocess.Popen([*words, *given], stdout=log, stderr=log, **self._as)
        until(self._answers)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it, if it runs: at once, as if it had crashed (SIGQUIT), or after its backends were ended (SIGINT)."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(START_S)

    def url(self, database: str) -> str:
        """Give the address of one of its databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def ask(self, text: str, database: str = "postgres") -> Any:
        """Give the one value that a statement gives."""
        with psycopg.connect(self.url(database), autocommit=True) as admin:
            ((value,),) = admin.execute(text.encode()).fetchall()
        return value

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([self._programs / program, *words], check=True, stdout=subprocess.DEVNULL, **self._as)


class Pair:
    """A primary and a standby; who is which changes with each promotion.

    Args:
        synchronous: Whether commits wait for the standby.

    Attributes:
        port: Of the first one.
        synchronous: As given.
        primary, standby: As they are now.
    """

    def __init__(self, *, synchronous: bool = True) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="anew-pair-"))
        self._place.chmod(0o755)
        self.synchronous = synchronous
        self._setting = f"synchronous_standby_names={'*' if synchronous else ''}"
        nodes = []
        for name in "ab":
            (self._place / name).mkdir()
            nodes.append(Node(self._place / name))
        self._nodes = self.primary, self.standby = nodes[0], nodes[1]
        self.port, self._database = self.primary.port, "postgres"
        self.primary.initialize()
        self.primary.start(self._setting)
        self.mend()

    def empty(self) -> None:
        """Have what follows use a database in which nothing is stored."""
        self._database = f"jobs_{int(self._database.rpartition('_')[2] if '_' in self._database else 0) + 1}"
        with psycopg.connect(self.primary.url("postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {self._database}")

    def url(self, port: int | None = None) -> str:
        """Give the address that names both, always in the same order."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)
        return f"postgresql://postgres@{hosts}/{self._database}"

    def url_of(self, node: Node) -> str:
        """Give the address of one alone."""
        return node.url(self._database)

    def ask(self, node: Node, text: str) -> Any:
        """Give the one value that a statement gives."""
        return node.ask(text, self._database)

    def cut_off_standby(self) -> None:
        """Have nothing more come to the standby; it stays so until it is made anew."""
        with psycopg.connect(self.standby.url("postgres"), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET primary_conninfo = ''")
            admin.execute("SELECT pg_reload_conf()")
            until(lambda: admin.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchall() == [(0,)])

    def promote(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Crash the primary, or stop it, and have the standby take over."""
        self.primary.stop(how)
        self.standby.ask("SELECT pg_promote(true, 60)::text")
        self.primary, self.standby = self.standby, self.primary

    def mend(self) -> None:
        """Have the server that does not write follow the one that does."""
        self.standby.follow(self.primary)
        self.standby.start(self._setting)
        until(lambda: self.primary.ask("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"))

    def close(self) -> None:
        """End both, and remove all that they have stored."""
        for node in self._nodes:
            node.stop()
        shutil.rmtree(self._place)
