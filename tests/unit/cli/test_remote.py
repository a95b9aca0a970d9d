"""The options that choose jobs."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from anew.cli.remote import filter_options
from anew.client import Filters
from anew.errors import InvalidInput


def chosen(*words: str, prefix: str = "") -> Filters:
    found: list[Filters] = []

    @click.command()
    @filter_options(prefix=prefix)
    def command(filters: Filters) -> None:
        found.append(filters)

    CliRunner().invoke(command, words, catch_exceptions=False)
    return found[0]


def test_retrying_is_scheduled_with_failures() -> None:
    assert chosen("--status", "retrying", "--queue", "q").given() == {
        "status": ("scheduled",),
        "queue": ("q",),
        "attempts": "1..",
    }
    assert chosen("--where-status", "retrying", prefix="where-").attempts == "1.."
    assert chosen("--status", "scheduled").attempts is None


@pytest.mark.parametrize(
    "words", [("--status", "retrying,dead"), ("--status", "retrying", "--attempts", "3..")]
)
def test_retrying_beside_what_one_filter_cannot_say_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="--status retrying: expected it alone"):
        chosen(*words)
