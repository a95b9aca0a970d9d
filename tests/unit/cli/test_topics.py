"""What the commands of topics read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from anew.cli.root import run
from anew.cli.topics.api import json_text
from anew.errors import InvalidInput


def test_json_is_given_as_it_stands_and_a_pipe_is_read_once(tmp_path: Path) -> None:
    assert json_text('{"a":  1}', "--data") == b'{"a":  1}'
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("[1]",))
    writer.start()
    assert json_text(f"@{pipe}", "--data") == b"[1]"
    writer.join(20)


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "."), ("", "."), ("\udcff", "."), ("[" * 100_000, "it nests too deeply")]
)
def test_what_is_no_json_is_refused_by_the_options_name(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=f"--data: expected JSON, a file as @file, or -: .*{problem}"):
        json_text(text, "--data")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("sub add orders queue:mail --ttl", "ttl"),
        ("sub rotate-secret sub_1 --overlap", "overlap"),
        ("topic create orders --retention", "retention"),
        ("topic set orders --retention", "retention"),
    ],
)
def test_a_fraction_of_a_second_is_refused_where_whole_ones_are_kept(
    capsys: pytest.CaptureFixture[str], words: str, option: str
) -> None:
    assert run([*words.split(), "500ms"]) == 2
    assert capsys.readouterr().err == f'Error: {option}: "500ms" is not valid; expected whole seconds\n'
