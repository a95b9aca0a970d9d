"""Finds the server of an address that takes writes: no standby, and no primary that another one has taken over from.

Each promotion of a standby begins a new timeline. The old primary stays on its own, and may be started again, or be cut off from
all but some: whoever writes there writes what nobody else sees. So no connection of this process goes back to an older timeline
than any of them has seen.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from anew.errors import StoreFailed
from anew.store.postgres.opening import Connection, connect, shown_address

OTHERS_S = 3
"""How long to try a further host, to ask it whether it has taken over."""

_HISTORY = (
    "SELECT system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int::bigint "
    "FROM pg_control_system()"
)
"""The cluster, which its standbys share, and the timeline that it writes on."""


class Primary:
    """The server that takes writes, for all connections of one store.

    Args:
        url: ``postgresql://user@host/database``, with one host or several.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._hosts = list(hosts_of(url))
        self._newest: dict[int, int] = {}

    def connect(
        self, *, everywhere: bool = False, answer_s: float | None = None, **settings: str
    ) -> Connection:
        """Open a connection to the first host that takes writes.

        Args:
            everywhere: Ask all others too, as one of them may have taken over from it.
            answer_s, settings: See `opening.connect`.

        Raises:
            InvalidConfig: See `opening.connect`.
            StoreFailed: There is none.
        """
        found: Connection | None = None
        failures = []
        for host in self._hosts:
            given = host if found is None else make_conninfo(host, connect_timeout=OTHERS_S)
            try:
                made = self._open(given, answer_s, settings)
            except StoreFailed as error:
                failures.append(str(error))
                continue
            found, spare = (made, found) if found is None or self.has_newer(found) else (found, made)
            if spare is not None:
                spare.close()
            if not everywhere:
                break
        if found is None:
            raise StoreFailed("; ".join(failures))
        return found

    def has_newer(self, connection: Connection) -> bool:
        """Report whether another server has taken over from a connection's, as far as this process has seen."""
        cluster, timeline = connection.history
        return timeline < self._newest.get(cluster, 0)

    def _open(self, host: str, answer_s: float | None, settings: dict[str, str]) -> Connection:
        connection = connect(host, answer_s=answer_s, **settings)
        try:
            self._judge(connection)
        except psycopg.Error as error:
            connection.close()
            raise StoreFailed(f"{shown_address(self._url)}: {' '.join(str(error).split())}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _judge(self, connection: Connection) -> None:
        """Refuse a server that takes no writes, or whose writes nobody sees any more."""
        at = f"{connection.info.host}:{connection.info.port}"
        if connection.execute("SELECT pg_is_in_recovery()").fetchall() == [(True,)]:
            raise StoreFailed(f"{at} is a standby, which takes no writes")
        cluster, timeline = connection.history = _history(connection)
        newest = self._newest.get(cluster, 0)
        if timeline < newest:
            raise StoreFailed(
                f"{at} is on timeline {timeline}, and another server has taken over from it, on timeline {newest}; "
                "nothing may be written there any more"
            )
        if timeline > newest:
            self._newest[cluster] = timeline


def _history(connection: Connection) -> tuple[int, int]:
    """Give a server's cluster and timeline; 0 and 0 where it tells nobody, as one that somebody else runs may not."""
    try:
        ((cluster, timeline),) = connection.execute(_HISTORY).fetchall()
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):
        return 0, 0
    return int(cluster), int(timeline)


def hosts_of(url: str) -> Iterator[str]:
    """Give the address of each host that an address names."""
    parts = conninfo_to_dict(url)
    hosts, addresses = (str(parts.get(name) or "").split(",") for name in ("host", "hostaddr"))
    count = max(len(hosts), len(addresses))
    ports = str(parts.get("port") or "").split(",")
    if count == 1:
        yield url
        return
    many = [words if len(words) == count else [words[0]] * count for words in (hosts, addresses, ports)]
    for host, address, port in zip(*many, strict=True):
        given = {"host": host, "hostaddr": address, "port": port}
        yield make_conninfo("", **parts | {name: value or None for name, value in given.items()})
