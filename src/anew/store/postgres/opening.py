"""Connects to the database: the settings of a connection, how values go over the wire, the migrations."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader

from anew.errors import InvalidConfig, InvalidInput, StoreBusy, StoreFailed
from anew.store.postgres.texts import TextDumper, UnstorableText, refusal, storable
from anew.store.postgres.words import STATEMENTS
from anew.store.protocol import Identity
from anew.store.sql.migrations import IN_USE, steps_from
from anew.units import without_password

PACKAGE: Final = "anew.store.postgres"
SCHEMA: Final = "anew"
"""The schema that holds all tables."""

OLDEST_VERSION: Final = 150_000
"""As `server_version_num` says it."""

ADDRESS: Final[dict[str, Any]] = {
    "application_name": "anew",
    "connect_timeout": 10,
    # A network that swallows what is sent is noticed within some ten seconds.
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""What an address says unless it says something else."""

ANSWER_S = 65.0
"""How long an answer may take before the connection counts as lost: longer than PostgreSQL works on one statement."""

WAIT_INTERVAL_S = 0.1

LOST: Final = {
    "57P01",  # it is being stopped, or the backend was ended by hand
    "57P02",  # another backend has crashed
    "57P03",  # it starts or stops
    "57P05",  # idle for too long
    "25P03",  # stopped inside a transaction for too long
    "25006",  # it only reads
}
"""Codes of errors after which another connection may do better."""

SETTINGS: Final = {
    "search_path": SCHEMA,
    "client_encoding": "utf8",
    "client_min_messages": "warning",  # or nobody would hear of a COMMIT that no standby has confirmed
    # Whose machine has gone loses its session, and the lock that shows that it lives, within some ten seconds.
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    # A process that is stopped inside its transaction keeps everybody waiting for no longer than this.
    "idle_in_transaction_session_timeout": "10s",
    "idle_session_timeout": "0",
    "statement_timeout": "60s",
    # The statements are few and each has its index: plans are made once, mostly before there are many rows, and must stay good when
    # there are. So none walks a table that has an index, nor reads one whole to join it with a few rows or to sort what it finds.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}

_SYNCED: Final = (
    "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END"
)
"""What is answered must have reached the disk, and the standby's if there is one, whatever a role's or a database's default is."""

MUST_BE_ON: tuple[str, ...] = ("fsync", "full_page_writes")
"""Settings of a server without which nothing that it answers is safe; tests, whose server may lose all, have none of them."""

_TAG_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_MIGRATING: Final = 0x414E4557
"""Number of the advisory lock under which one process brings the schema up to date."""


class _SumLoader(Loader):
    """Sums of integers come as numerics, and are integers."""

    format = Format.BINARY

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self._load = NumericBinaryLoader(oid, context).load

    def load(self, data: Any) -> int:
        """Give the integer."""
        return int(self._load(data))


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose every wait for an answer is bounded: a network that swallows what is sent would never tell.

    Attributes:
        answer_s: How long an answer may take.
        history: The cluster and the timeline of its server; see `anew.store.postgres.primary`.
        shielded: Ctrl-C waits for the answer too, and is put into `interruption`; a second one does not wait.
    """

    answer_s: float = ANSWER_S
    history: tuple[int, int] = (0, 0)
    shielded = False
    interruption: BaseException | None = None

    def wait(self, gen: Any, interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> Any:
        """Wait as psycopg does, but not for ever."""
        wait = self._wait_shielded if self.shielded else super().wait
        try:
            return wait(gen, interval, self.answer_s if timeout is None else timeout)
        except psycopg.errors._WaitTimeout as error:
            if timeout is not None:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer within {self.answer_s:.0f} s") from error

    def _wait_shielded(self, gen: Any, interval: float, timeout: float) -> Any:
        """Wait on where psycopg would cancel the statement: a COMMIT that is cancelled no longer waits for a standby."""
        while True:
            try:
                return psycopg.waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=timeout)
            except Exception:
                raise
            except BaseException as error:
                if self.interruption is not None:
                    raise
                self.interruption = error


def shown_address(url: str) -> str:
    """Give an address as people may see it, also one that is words and no URL."""
    if "://" in url:
        return without_password(url)
    parts = conninfo_to_dict(url)
    host = parts.get("host") or parts.get("hostaddr") or ""
    return f"postgresql://{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"


def connect(url: str, *, answer_s: float | None = None, **settings: str) -> Connection:
    """Open a connection on which each statement is a transaction of its own, until one says BEGIN.

    Args:
        url: ``postgresql://user@host/database``, or whatever else libpq takes.
        answer_s: How long an answer may take before the connection counts as lost; None: `ANSWER_S`.
        settings: In place of those of `SETTINGS`, or beside them.

    Raises:
        InvalidConfig: The server is too old, or the database is not in UTF-8.
        StoreFailed: It cannot be reached, or refuses.
    """
    try:
        connection = Connection.connect(autocommit=True, **{**ADDRESS, **conninfo_to_dict(url)})
    except psycopg.Error as error:
        raise StoreFailed(
            f"{shown_address(url)} cannot be reached: {' '.join(str(error).split())}"
        ) from error
    connection.answer_s = ANSWER_S if answer_s is None else answer_s
    try:
        _check(connection, url)
        values = {name: f"'{value}'" for name, value in {**SETTINGS, **settings}.items()}
        values.setdefault("synchronous_commit", _SYNCED)
        wanted = ", ".join(f"set_config('{name}', {value}, false)" for name, value in values.items())
        connection.execute(f"SELECT {wanted}")
    except BaseException:
        connection.close()
        raise
    _adapt(connection)
    return connection


def _check(connection: Connection, url: str) -> None:
    if connection.info.server_version < OLDEST_VERSION:
        raise InvalidConfig(
            f"PostgreSQL {connection.info.parameter_status('server_version')} is too old; expected 15 or newer",
            field="store",
            value=shown_address(url),
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InvalidConfig(
            f"the database's encoding is {encoding}; expected UTF8",
            field="store",
            value=shown_address(url),
        )


def refuse_unsafe(connection: Connection) -> None:
    """Refuse a server whose crash may lose what it has answered.

    Raises:
        InvalidConfig: It is told which setting to change.
    """
    for name in MUST_BE_ON:
        ((value,),) = connection.execute("SELECT current_setting(%s)", (name,)).fetchall()
        if value != "on":
            raise InvalidConfig(
                f"{name} is {value} in the database's server, whose crash may lose what was answered; expected on: "
                f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf(). "
                "To do without: anew serve --commit relaxed",
                field="store",
                value=value,
            )


def _adapt(connection: Connection) -> None:
    """Have all integers, and truths, go as 8 bytes: with other types a statement would be prepared again for each."""
    integers = connection.adapters.get_dumper_by_oid(20, Format.BINARY)
    assert issubclass(integers, Int8BinaryDumper) or integers.oid == 20
    for kind in (int, bool):
        connection.adapters.register_dumper(kind, integers)
    connection.adapters.register_dumper(str, TextDumper)
    connection.adapters.register_loader("numeric", _SumLoader)


def is_lost(error: BaseException) -> bool:
    """Report whether an error means that a connection is of no use any more, and the next one may be.

    Also where the server is about to end, or it is one that only reads, as after a failover.
    """
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return False
    if error.sqlstate is None:  # libpq's own
        return not isinstance(error, psycopg.InternalError)
    return error.sqlstate in LOST or error.sqlstate.startswith("08")


def let_go_in_child(connection: Connection | None) -> None:
    """In a forked child: let go of a connection of the parent's. What libpq says to a server at the end goes nowhere."""
    if connection is None or connection.closed:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, connection.fileno(), inheritable=False)
    os.close(nowhere)
    connection.pgconn.finish()


def executor(
    connection: Connection,
    refused: Callable[[InvalidInput], Exception] = lambda error: error,
) -> Callable[..., Any]:
    """Give what runs a text whose marks are ``$1``, ``$2``, prepared the first time; its rows are in memory when it returns.

    Args:
        connection: On which it runs.
        refused: Makes what is raised for a value that PostgreSQL does not take.
    """

    def execute(text: str, bound: Any = ()) -> Any:
        try:
            return psycopg.RawCursor(connection).execute(text, bound, prepare=True, binary=True)
        except UnstorableText:
            try:
                good = storable(text, bound)
            except InvalidInput as error:
                raise refused(error) from error
            return execute(text, good)
        except (psycopg.DataError, psycopg.OperationalError) as error:
            known = refusal(error)
            if known is None:
                raise
            raise refused(known) from error

    return execute


def migrate(connection: Connection) -> None:
    """Bring the schema up to date, forward only, one process at a time; all steps in one transaction.

    Raises:
        StoreBusy: An older store is to be changed, and another process has it open.
        NewerStore: It was written by a newer program.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
        present = _present(connection)
        steps = steps_from(PACKAGE, present)
        if present and steps and connection.execute(STATEMENTS.text("alive_sessions").encode()).fetchall():
            raise StoreBusy(IN_USE)
        for number, script in steps:
            connection.execute(script.encode())
            connection.execute("UPDATE schema_version SET version = %s", (number,))


def _present(connection: Connection) -> int:
    """Give the number of the present schema; make the place for it where there is none."""
    found = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.schema_version",)).fetchone()
    if found is None or found[0] is None:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (0)")
    ((version,),) = connection.execute("SELECT version FROM schema_version").fetchall()
    return int(version)


def identify(connection: Connection) -> Identity:
    """Read the store's identity, or create it at the first opening."""
    fresh = {
        "tag": "0" + "".join(secrets.choice(_TAG_LETTERS) for _ in range(8)),
        "secret": secrets.token_hex(32),
        "last_key": "0",
        "last_failure": "0",
    }
    run = STATEMENTS.runner(executor(connection))
    for name, value in fresh.items():
        connection.execute(
            "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, value)
        )
    known = {str(name): str(value) for name, value in run("read_meta")}
    return Identity(
        tag=known["tag"],
        secret=bytes.fromhex(known["secret"]),
        last_key=int(known["last_key"]),
        last_failure=int(known["last_failure"]),
    )
