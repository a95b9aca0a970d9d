"""Which server of an address is taken. How the old primary is refused after a failover: `tests/reliability/test_failover.py`."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from anew.errors import StoreFailed
from anew.store.postgres.primary import Primary, hosts_of
from tests.postgres import empty_database

ROLE = "anew_nobody"


@pytest.fixture
def admin() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to the tests' server, which has a role without any right of its own."""
    with psycopg.connect(empty_database(), autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {ROLE}")
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        yield connection
        connection.execute(f"DROP ROLE {ROLE}")


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://ada@db/jobs", [{"host": "db"}]),
        ("postgresql:///jobs", [{}]),
        ("postgresql://ada@a,b/jobs", [{"host": "a"}, {"host": "b"}]),
        ("postgresql://ada@a:1,b:2/jobs", [{"host": "a", "port": "1"}, {"host": "b", "port": "2"}]),
        ("postgresql://ada@a,b/jobs?port=3", [{"host": "a", "port": "3"}, {"host": "b", "port": "3"}]),
        (
            "postgresql://ada@a,b/jobs?hostaddr=10.0.0.1,10.0.0.2",
            [{"host": "a", "hostaddr": "10.0.0.1"}, {"host": "b", "hostaddr": "10.0.0.2"}],
        ),
        ("host=a,b dbname=jobs", [{"host": "a"}, {"host": "b"}]),
    ],
)
def test_an_address_may_name_several_hosts(url: str, hosts: list[dict[str, str]]) -> None:
    found = [conninfo_to_dict(one) for one in hosts_of(url)]
    assert [
        {name: one[name] for name in ("host", "hostaddr", "port") if one.get(name)} for one in found
    ] == hosts
    assert {one["dbname"] for one in found} == {"jobs"}
    assert {one.get("user") for one in found} == {conninfo_to_dict(url).get("user")}


def test_a_host_that_is_down_is_passed_over_and_each_is_told_where_none_is_there() -> None:
    good = conninfo_to_dict(empty_database())
    port = good.get("port", "5432")
    several = make_conninfo("", **good | {"host": f"127.0.0.1,{good['host']}", "port": f"1,{port}"})
    with Primary(several).connect() as connection:
        assert connection.info.host == good["host"]
    none = make_conninfo("", **good | {"host": "127.0.0.1,127.0.0.1", "port": "1,2"})
    with pytest.raises(StoreFailed, match=r"(?s)port 1 .*refused.*; .*port 2 .*refused"):
        Primary(none).connect()


def test_any_role_is_told_the_timeline_and_where_none_is_it_is_not_compared(
    admin: psycopg.Connection[tuple[object, ...]],
) -> None:
    primary = Primary(make_conninfo(empty_database(), user=ROLE))
    with primary.connect() as connection:
        ((cluster,),) = admin.execute("SELECT system_identifier FROM pg_control_system()").fetchall()
        assert connection.history == (cluster, 1)
        assert not primary.has_newer(connection)
    admin.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    try:
        with primary.connect() as connection:
            assert connection.history == (0, 0)
            assert not primary.has_newer(connection)
    finally:
        admin.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
