"""Which processes have the file open: each keeps one file locked, and the system lets go of it when the process dies.

So a killed process is found at once and a slow one is never taken for dead. A forked child shares its parent's descriptors: it
closes them, so that it cannot keep its parent's session alive.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from anew.errors import StoreBusy
from anew.store.sql.link import MOST_SLOTS

POKE = b"!"
LOOK_S = 0.05
"""How often to look who listens: as often as whoever listens looks by itself. The folder's time of change tells no better: two
changes within a tick of the system's clock have the same."""

KEY_BYTES = 8

_LONGEST_ADDRESS = 100
"""Bytes of a socket's path that the system takes, with some to spare; longer ones are reached through the folder's descriptor."""


class Presence:
    """The sign of life of one open store, and how it wakes the others.

    Args:
        folder: Where all processes that have the file open keep their signs; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        self._fd: int | None = None
        self._begun: memoryview | None = None
        self._session = 0
        self._outgoing = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._outgoing.setblocking(False)
        self._incoming: socket.socket | None = None
        self._look_at = 0.0
        self._sleepers: list[str] = []

    def appear(self, session: int) -> None:
        """Lock the file of a session. Called before the session's row is committed, so that no row is ever without its lock."""
        self._session = session
        self._fd = os.open(self._folder / str(session), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def note_begun(self, slot: int, key: int) -> None:
        """Write which job runs in a slot of this process, 0 for none; the system keeps it when the process dies."""
        if self._begun is None:
            self._begun = self._map()
        if slot < len(self._begun):
            self._begun[slot] = key

    def _map(self) -> memoryview:
        """Map the session's file into memory: a system call for each job would let go of the interpreter's lock."""
        if self._fd is None:
            return memoryview(b"")
        try:
            # Not sparse: to write into a hole of a full device is a signal that ends the process.
            os.posix_fallocate(self._fd, 0, MOST_SLOTS * KEY_BYTES)
            return memoryview(mmap.mmap(self._fd, MOST_SLOTS * KEY_BYTES)).cast("q")
        except OSError:
            return memoryview(b"")  # all that it holds is suspected then

    def begun(self, session: int) -> frozenset[int] | None:
        """Give the jobs that a session has noted; None if it has noted nothing, or its file cannot be read."""
        try:
            with (self._folder / str(session)).open("rb") as file:
                noted = file.read(MOST_SLOTS * KEY_BYTES)
        except OSError:
            return None
        if len(noted) < MOST_SLOTS * KEY_BYTES:
            return None
        return frozenset(memoryview(noted).cast("q")) - {0}

    def is_alive(self, session: int) -> bool:
        """Report whether the process of a session still runs."""
        if session == self._session:
            return True
        return is_locked(self._folder / str(session))

    def anybody(self) -> bool:
        """Report whether any process has the file open."""
        return any(self.is_alive(int(name)) for name in os.listdir(self._folder) if name.isdigit())

    def forget(self, session: int) -> None:
        """Remove what a dead session has left here."""
        for name in (str(session), f"{session}.wake"):
            with suppress(FileNotFoundError):
                os.unlink(self._folder / name)

    # -- wake-ups

    def listen(self) -> int:
        """Begin to be woken; gives a descriptor that can be read when another process has committed ready jobs."""
        if self._incoming is None:
            name = f"{self._session}.wake"
            with suppress(FileNotFoundError):
                os.unlink(self._folder / name)
            self._incoming = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._incoming.setblocking(False)
            self._incoming.bind(self._address(name))
        return self._incoming.fileno()

    def hear(self) -> None:
        """Take what has come to the descriptor of `listen`."""
        if self._incoming is not None:
            with suppress(BlockingIOError):
                while self._incoming.recv(64):
                    pass

    def poke(self) -> None:
        """Wake every process that listens; nothing depends on it, and nothing that goes wrong here is anybody's error."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            with suppress(OSError):
                own = f"{self._session}.wake"
                names = [name for name in os.listdir(self._folder) if name.endswith(".wake") and name != own]
                self._sleepers = [self._address(name) for name in names]
        for address in self._sleepers:
            with suppress(OSError):
                self._outgoing.sendto(POKE, address)

    def poke_self(self) -> None:
        """Wake whoever of this process listens."""
        if self._incoming is not None:
            with suppress(OSError):
                self._outgoing.sendto(POKE, self._address(f"{self._session}.wake"))

    def leave(self) -> None:
        """Remove the sign of life and let go of everything."""
        if self._fd is not None:
            self.forget(self._session)
        self.close_descriptors()

    def close_descriptors(self) -> None:
        """Let go of everything, as a forked child does; what the parent has stays."""
        for one in (self._outgoing, self._incoming):
            if one is not None:
                one.close()
        for fd in (self._folder_fd, self._fd):
            if fd is not None:
                os.close(fd)
        self._fd = self._incoming = self._begun = None

    def _address(self, name: str) -> str:
        path = str(self._folder / name)
        if len(os.fsencode(path)) > _LONGEST_ADDRESS:
            return f"/proc/self/fd/{self._folder_fd}/{name}"
        return path


def is_locked(path: Path) -> bool:
    """Report whether some process keeps a file locked; also where that cannot be found out, as without a free descriptor."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


class ServerLock:
    """The lock that keeps a second server off a store, held for the life of the process.

    Args:
        path: The file that is locked.

    Raises:
        StoreBusy: Another server holds it.
        OSError: It cannot be locked at all.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise StoreBusy(
                f"another server (process {holder}) holds the data directory {str(path.parent)!r}; "
                "stop it first, or give this one another --root-dir"
            ) from error
        except OSError:
            os.close(self._fd)
            raise
        # The number only helps whoever is refused: on a full device the server starts without it.
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Let the next server in."""
        os.close(self._fd)
