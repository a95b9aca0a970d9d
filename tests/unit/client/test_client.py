"""What the client refuses before anything is sent."""

from __future__ import annotations

import pytest

from anew.client import Client, Filters
from anew.client.parameters import local_path
from anew.errors import InvalidConfig, InvalidInput, Unreachable

NOBODY = "http://127.0.0.1:9"


@pytest.mark.parametrize("url", ["", "queue", "ftp://h", "http://", "http://h:x", "http://h/?a=1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(InvalidConfig, match="url: "):
        Client(url)


def test_no_condition_at_all_must_be_said() -> None:
    client = Client(NOBODY)
    with pytest.raises(InvalidInput, match="everything=True"):
        client.delete_many(Filters())
    with pytest.raises(InvalidInput, match="everything=True"):
        client.patch_many({"priority": 1}, Filters())


def test_an_empty_id_would_be_another_endpoint() -> None:
    with pytest.raises(InvalidInput, match="id of a job"):
        Client(NOBODY).delete("")


@pytest.mark.parametrize("link", ["http://elsewhere/jobs", "//elsewhere/jobs", "jobs"])
def test_a_link_to_elsewhere_is_not_followed(link: str) -> None:
    with pytest.raises(Unreachable, match="no path of its own"):
        local_path(link)
