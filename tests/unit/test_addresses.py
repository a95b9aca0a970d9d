"""What people see of addresses."""

from __future__ import annotations

import pytest

from anew.store.postgres.opening import shown_address
from anew.store.postgres.primary import hosts_of
from anew.units import without_password

SEVERAL = "postgresql://ada:s3cret@db1:5433,db2/jobs?sslpassword=s3cret"


def test_of_several_hosts_each_is_shown_without_the_password() -> None:
    hosts = list(hosts_of(SEVERAL))
    assert len(hosts) == 2
    assert [shown_address(host) for host in hosts] == [
        "postgresql://db1:5433/jobs",
        "postgresql://db2:5432/jobs",
    ]
    assert shown_address(SEVERAL) == "postgresql://…"


@pytest.mark.parametrize("text", ["host=db1 user=ada password=s3cret", "s3cret", ""])
def test_of_what_is_no_url_nothing_is_shown(text: str) -> None:
    assert without_password(text) == "…"
