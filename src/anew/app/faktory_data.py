"""Reads what Faktory 1.10 keeps in its Redis, and writes nothing there: neither a key nor a file.

Faktory runs a Redis of its own, which ends with it and leaves ``faktory.rdb`` in its data directory. From a directory that file
is loaded by a ``redis-server`` that is started for the time of reading, in a folder of its own and told to save nothing. A Redis
that runs is read where it is, as long as nobody else uses it.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from anew.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    NotSupported,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from anew.fwp.stored import QUEUE, SETS
from anew.units import without_password

RDB: Final = "faktory.rdb"
SOCKET: Final = "redis.sock"
"""Names in Faktory's data directory."""

DATA_VERSION: Final = 1
"""The largest number that the key ``v`` may have. Faktory 1.10 mostly leaves the key out."""

LOADING_S: Final = 600.0
"""How long a file may take to be loaded. Source: Faktory 1.10 waits as long."""

TIMEOUT_S: Final = 20.0
"""How long a connection, or one answer, may take: a chunk of the longest jobs from a machine that swaps."""

_OURS: Final = re.compile(r"v|queues|paused|(processed|failures)(:.*)?")
"""The keys of Faktory 1.10 beside those that have jobs."""

_READS: Final = frozenset(
    {
        "auth", "client|id", "client|list", "client|setinfo", "client|setname", "exists", "get", "hello", "info", "llen",
        "lrange", "ping", "scan", "select", "smembers", "type", "zcard", "zrange",
    }
)  # fmt: skip
"""Commands that this program sends, as INFO names them; some of them the library sends by itself."""

_BOUND: Final = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Becomes a program that ends when the process that started it is killed, where the system can do that."""

MOST_NAMES: Final = 20
"""Keys that are named of those that are not Faktory's."""


@contextmanager
def opened(source: str) -> Iterator[FaktoryData]:
    """Open Faktory's data.

    Args:
        source: Faktory's data directory, or the address of a Redis: ``unix://PATH``, ``redis://[:PASSWORD@]HOST[:PORT][/DB]``,
            ``rediss://`` with TLS.

    Raises:
        NotSupported: The library for Redis, or ``redis-server``, is not installed.
        NotFound: There is no such directory, or no data in it.
        InvalidInput: The address is none, or what is there is not the data of Faktory 1.10.
        Conflict: Faktory runs.
        Unreachable, Unauthorized: No Redis answers, or it asks for another password.
    """
    library = _library()
    if "://" in source:
        with _connected(library, source, without_password(source)) as data:
            yield data
        return
    directory = Path(source)
    still = _stopped(directory)
    with _loaded(library, directory / RDB) as url, _connected(library, url, source, still) as data:
        yield data


class FaktoryData:
    """One Redis that Faktory has filled and that stands still.

    Args:
        library: redis-py.
        client: Connected.
        name: What people call it.
        still: Raises Conflict once it is not Faktory's newest data any more.

    Attributes:
        name: As given.
        queues, paused: Names of queues.
        sizes: Jobs by place: a name of `SETS`, ``q:NAME``, or ``NAME`` where Faktory before 1.10 has left a queue's list.
        others: How many keys there are that are none of Faktory 1.10's, and the names of some.

    Raises:
        InvalidInput: It is not the data of Faktory 1.10.
        Conflict: Somebody else is connected.
    """

    def __init__(
        self, library: ModuleType, client: Any, name: str, still: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._still = still
        self._library = library
        self._client = client
        self._require_alone()
        self._others_commands = self._commands_of_others()
        self._require_faktory()
        self.queues = self._names("queues")
        self.paused = self._names("paused")
        self.sizes = self.sizes_now()
        self.others = self._other_keys()

    def sizes_now(self) -> dict[str, int]:
        """Count the jobs by place, the running ones first."""
        sizes = {place: int(self._ask("ZCARD", place)) for place in SETS}
        sizes |= {QUEUE + queue: int(self._ask("LLEN", QUEUE + queue)) for queue in self.queues}
        old = [queue for queue in self.queues if self._ask("TYPE", queue) == b"list"]
        return sizes | {queue: int(self._ask("LLEN", queue)) for queue in old}

    def read(self, place: str, start: int, n: int) -> list[tuple[bytes, float | None]]:
        """Read up to `n` jobs from a place, the first ones first: as they stand there, with their times in a set."""
        if place in SETS:
            found = self._ask("ZRANGE", place, start, start + n - 1, "WITHSCORES")
            return [(data, float(score)) for data, score in zip(found[::2], found[1::2], strict=True)]
        # The oldest is the last of the list.
        return [(data, None) for data in reversed(self._ask("LRANGE", place, -start - n, -start - 1))]

    def require_still(self) -> None:
        """Insist that nobody else has asked this Redis for anything since it was opened, and that Faktory has not started.

        Raises:
            Conflict: Somebody has, or it has.
        """
        self._still()
        before, now = self._others_commands, self._commands_of_others()
        if before != now:
            names = sorted(name for name in now if now[name] != before.get(name))
            raise Conflict(
                f"{self.name} is in use: another program has sent {', '.join(names[:5])} meanwhile; stop Faktory, and "
                "all else that uses its Redis, and run this again: it goes on where it is"
            )

    # -- what must hold

    def _require_alone(self) -> None:
        mine = int(self._ask("CLIENT", "ID"))
        others = [line for line in _lines(self._ask("CLIENT", "LIST")) if _field(line, "id") != str(mine)]
        if others:
            who = ", ".join(sorted({_field(line, "addr") or "a local program" for line in others})[:5])
            raise Conflict(
                f"{self.name} is in use by {len(others)} other connections ({who}); stop Faktory first, and leave its "
                "Redis, or give its data directory"
            )

    def _require_faktory(self) -> None:
        if not self._ask("EXISTS", "queues", "processed", *SETS):
            raise InvalidInput(
                f"{self.name} has none of Faktory's keys; expected the data of Faktory 1.10 (an address may end with the "
                "number of the database: redis://HOST/1)",
                field="source",
            )
        version = self._ask("GET", "v") or b"0"
        if not version.isdigit() or int(version) > DATA_VERSION:
            shown = version.decode("utf-8", "replace")
            raise InvalidInput(
                f"{self.name} has data version {shown}; expected up to {DATA_VERSION}: a newer Faktory than 1.10 wrote it",
                field="source",
            )

    def _commands_of_others(self) -> dict[str, str]:
        """Give the calls of all commands that this program never sends."""
        calls: dict[str, str] = {}
        for line in _lines(self._ask("INFO", "commandstats")):
            name, _, figures = line.removeprefix("cmdstat_").partition(":")
            if figures and name not in _READS:
                calls[name] = figures.partition(",")[0]
        return calls

    # -- reading

    def _names(self, key: str) -> list[str]:
        return sorted(name.decode("utf-8", "replace") for name in self._ask("SMEMBERS", key))

    def _other_keys(self) -> tuple[int, list[str]]:
        number, names, cursor = 0, set[str](), b"0"
        places = self.sizes.keys() | {QUEUE + queue for queue in self.queues}
        while True:
            cursor, keys = self._ask("SCAN", cursor, "COUNT", "1000")
            for key in (key.decode("utf-8", "replace") for key in keys):
                if key not in places and not _OURS.fullmatch(key):
                    number += key not in names
                    if len(names) < MOST_NAMES:
                        names.add(key)
            if int(cursor) == 0:
                return number, sorted(names)

    def _ask(self, *words: str | int | bytes) -> Any:
        return asked(self._library, self.name, lambda: self._client.execute_command(*words))


def asked(library: ModuleType, name: str, question: Any) -> Any:
    """Give the answer to a question; an error of the library's becomes one of ours.

    Raises:
        Unauthorized, Unreachable, Unavailable, InvalidInput: There is none.
    """
    errors = library.exceptions
    try:
        return question()
    except errors.AuthenticationError as error:
        raise Unauthorized(f"Redis at {name} refuses the password: {error}") from error
    except errors.BusyLoadingError as error:
        raise Unavailable(f"{name} is still loading its file; run this again when it has") from error
    except errors.NoPermissionError as error:
        raise Unauthorized(f"Redis at {name} does not let this user read it: {error}") from error
    except (errors.ConnectionError, errors.TimeoutError) as error:
        raise Unreachable(f"no Redis answers at {name}: {error}") from error
    except errors.ResponseError as error:
        raise InvalidInput(f"{name} is not the data of Faktory 1.10: {error}", field="source") from error


def _library() -> ModuleType:
    try:
        import redis
    except ImportError as error:
        raise NotSupported(
            "redis-py is not installed, which reads Faktory's data: pip install 'anew[faktory]'"
        ) from error
    library: ModuleType = redis
    return library


@contextmanager
def _connected(
    library: ModuleType, url: str, name: str, still: Callable[[], None] = lambda: None
) -> Iterator[FaktoryData]:
    try:
        client = _client(library, url)
    except ValueError as error:
        raise InvalidInput(
            f"SOURCE: {name} is no address of a Redis ({error}); expected a directory, unix://PATH or redis://HOST:PORT",
            field="source",
        ) from error
    with client:
        yield FaktoryData(library, client, name, still)


def _client(library: ModuleType, url: str) -> Any:
    """Give a client that tries once, and gives answers as they come."""
    client = library.Redis.from_url(
        url,
        max_connections=1,
        socket_connect_timeout=TIMEOUT_S,
        socket_timeout=TIMEOUT_S,
        retry=library.retry.Retry(library.backoff.NoBackoff(), 0),
        driver_info=None,
        protocol=2,
    )
    client.response_callbacks.clear()
    return client


# -- a data directory


def _stopped(directory: Path) -> Callable[[], None]:
    """Insist that a data directory has a file, and that no Redis writes it; give what insists that this is still so."""
    if not directory.is_dir():
        raise NotFound(
            f"there is no directory {directory}; expected Faktory's data directory, such as /var/lib/faktory/db"
        )
    _require_no_redis(directory / SOCKET)
    file = directory / RDB
    if not file.is_file():
        raise NotFound(f"there is no {RDB} in {directory}; expected Faktory's data directory")
    before = _written(file)

    def still() -> None:
        _require_no_redis(directory / SOCKET)
        if _written(file) != before:
            raise Conflict(f"{file} has been written meanwhile; stop Faktory, and run this again")

    return still


def _require_no_redis(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except (
            FileNotFoundError,
            ConnectionRefusedError,
        ):  # nobody listens: no file, or one that a crash has left
            return
        except OSError as error:
            raise Conflict(
                f"cannot tell whether Faktory runs: its Redis may answer at {path} ({error.strerror}); "
                "run this as Faktory's user or as root"
            ) from error
    raise Conflict(
        f"Faktory runs: its Redis answers at {path}; stop Faktory first, it writes its data as it stops (if Faktory has died "
        f"and left its Redis, give unix://{path})"
    )


def _written(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _loaded(library: ModuleType, rdb: Path) -> Iterator[str]:
    """Start a Redis that has loaded a file, and saves nothing; give its address."""
    server = shutil.which("redis-server")
    if server is None:
        raise NotSupported(
            f"redis-server is not installed, which reads {rdb}; install it, or start one elsewhere and give its address"
        )
    with tempfile.TemporaryDirectory(prefix="anew-") as folder:
        # By a link: whatever happens, what is written in the folder is written there.
        (Path(folder) / RDB).symlink_to(rdb.resolve())
        words = ["--dir", folder, "--dbfilename", RDB, "--port", "0", "--unixsocket", f"{folder}/{SOCKET}"]
        words += ["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", f"{folder}/log"]
        process = subprocess.Popen(  # noqa: S603 - no shell, and the words are ours
            [sys.executable, "-I", "-S", "-c", _BOUND, server, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us, who end it then
        )
        try:
            url = f"unix://{folder}/{SOCKET}"
            _wait_until_loaded(library, url, process, rdb, Path(folder) / "log")
            yield url
        finally:
            process.kill()  # it has nothing to save
            process.wait()


def _wait_until_loaded(
    library: ModuleType, url: str, process: subprocess.Popen[bytes], rdb: Path, log: Path
) -> None:
    until = time.monotonic() + LOADING_S
    with _client(library, url) as client:
        while True:
            try:
                client.ping()
            except library.exceptions.RedisError as error:
                if process.poll() is not None:
                    raise InvalidInput(
                        f"redis-server cannot read {rdb}: {_last_line(log)}; expected one that is as new as the Redis that "
                        "wrote the file",
                        field="source",
                    ) from error
                if time.monotonic() > until:
                    raise Unavailable(f"redis-server has not loaded {rdb} in {LOADING_S:.0f} s") from error
                time.sleep(0.02)
            else:
                return


def _last_line(log: Path) -> str:
    try:
        lines = [
            line for line in log.read_text("utf-8", "replace").splitlines() if " # " in line or " * " in line
        ]
    except OSError:
        lines = []
    telling = [line for line in lines if re.search(r"rror|andle|atal|ermission|ailed", line)] or lines
    return telling[0].partition(" # ")[2] or telling[0] if telling else "it ended without a word"


# -- small


def _lines(answer: bytes) -> list[str]:
    return answer.decode("utf-8", "replace").splitlines()


def _field(line: str, name: str) -> str:
    found = re.search(rf"(?:^| ){name}=(\S*)", line)
    return found[1] if found else ""
