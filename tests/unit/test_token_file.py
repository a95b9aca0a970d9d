"""The file of tokens: what is written, what is read, and how each mistake is told."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from anew.config import token_file
from anew.config.token_file import add_line, line_of, new_token, read_tokens
from anew.errors import InvalidConfig

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""FIPS 180-2, B.1: the SHA-256 of "abc"."""


def given(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    """A file with this text."""
    file = tmp_path / "tokens"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    file.chmod(mode)
    return file


def test_a_line_has_the_sha_256_the_roles_and_the_name(tmp_path: Path) -> None:
    line = line_of("abc", ["worker", "producer"], "web-app")
    assert line == f"{ABC} worker,producer web-app"
    (token,) = read_tokens(given(tmp_path, f"# the web application\n\n  \n{line}\n"))
    assert token == (hashlib.sha256(b"abc").digest(), {"worker", "producer"}, "web-app")


def test_a_token_has_256_bits_of_chance_and_is_no_digest() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(
        re.fullmatch(r"anew_[A-Za-z0-9_-]{43}", token) for token in made
    )  # 43 characters of 6 bits: 32 bytes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (ABC, "it is not three words; expected the SHA-256 of a token, its roles and a name, with blanks between them"),
        (f"{ABC} read two words", "it is not three words; expected the SHA-256 of a token"),
        (f"{ABC[:-1]} read x", "the first word (63 characters) is not valid; expected the 64 hexadecimal digits, in lower case"),
        (f"{ABC.upper()} read x", "the first word (64 characters) is not valid"),
        (f"{ABC} reader x", '"reader" is not valid; expected roles out of admin, read, producer, worker, with commas'),
        (f"{ABC} read, x", '"" is not valid; expected roles out of'),
        (f"{ABC} Read x", '"Read" is not valid'),
        (f"{ABC} read a/b", '"a/b" is not valid; expected a name: 1 to 64 letters, digits, dots, underscores and hyphens'),
        (f"{ABC} read {'x' * 65}", "is not valid; expected a name"),
        (f"{ABC.replace('b', '0')} read x\n{ABC} read y\n{ABC} worker z", '"z" is not valid; expected a token that no line'),
    ],
)  # fmt: skip
def test_an_error_names_file_line_value_and_what_was_expected(tmp_path: Path, line: str, said: str) -> None:
    file = given(tmp_path, f"# tokens\n{line}\n")
    number = 1 + len(line.splitlines())
    with pytest.raises(InvalidConfig) as caught:
        read_tokens(file)
    assert str(caught.value).startswith(f'--tokens-file: "{file}" line {number}: ')
    assert said in str(caught.value)
    assert caught.value.field == "tokens-file"


def test_a_token_that_stands_there_by_mistake_is_not_told(tmp_path: Path) -> None:
    secret = new_token()
    with pytest.raises(InvalidConfig, match="the first word") as caught:
        read_tokens(given(tmp_path, f"{secret} read x\n"))
    assert secret not in str(caught.value) + str(caught.value.value)


def test_what_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match='line 2: "byte 0xff" is not valid; expected ASCII'):
        read_tokens(given(tmp_path, b"# x\n\xff\n"))


@pytest.mark.parametrize("mode", [0o604, 0o660, 0o602, 0o620])
def test_a_file_that_others_may_write_or_all_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = given(tmp_path, f"{ABC} read x\n", mode)
    with pytest.raises(
        InvalidConfig,
        match=rf"others than its owner may write it, or all may read it\); expected mode 0600: chmod 600 {file}",
    ):
        read_tokens(file)
    for fine in (0o400, 0o440, 0o640):
        file.chmod(fine)
        assert len(read_tokens(file)) == 1


def test_a_file_that_is_not_there_or_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InvalidConfig,
        match=r'"/nowhere/tokens" cannot be used \(no such file or directory\); expected a file',
    ):
        read_tokens(Path("/nowhere/tokens"))
    with pytest.raises(InvalidConfig, match="is a directory"):
        read_tokens(tmp_path)
    file = given(tmp_path, f"{ABC} read x\n")
    monkeypatch.setattr(token_file, "MOST_BYTES", 10)
    with pytest.raises(InvalidConfig, match="it has more than 10 bytes"):
        read_tokens(file)


@pytest.mark.parametrize("use", [read_tokens, lambda file: add_line(file, line_of("a", ["read"], "one"))])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, use: Callable[[Path], object]) -> None:
    """A server that runs reads the file in its event loop, which would stand still until somebody writes."""
    pipe = tmp_path / "tokens"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(InvalidConfig, match="it is not a regular file"):
        use(pipe)


def test_no_line_is_added_that_makes_a_file_too_long_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = line_of("a", ["read"], "one")
    file = tmp_path / "tokens"
    monkeypatch.setattr(token_file, "MOST_BYTES", 2 * len(line + "\n") - 1)
    add_line(file, line)
    with pytest.raises(InvalidConfig, match="with one more line it has more than"):
        add_line(file, line_of("b", ["read"], "two"))
    assert len(read_tokens(file)) == 1


def test_an_empty_file_lets_nobody_in(tmp_path: Path) -> None:
    assert read_tokens(given(tmp_path, "")) == []


def test_a_line_is_added_to_a_file_that_only_its_owner_may_use(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    add_line(file, line_of("a", ["read"], "one"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(file.read_text().rstrip("\n"))  # as an editor may leave it
    add_line(file, line_of("b", ["worker"], "two"))
    assert [token.name for token in read_tokens(file)] == ["one", "two"]


def test_nothing_is_added_to_a_file_that_a_server_would_not_read(tmp_path: Path) -> None:
    file = given(tmp_path, "hello\n")
    with pytest.raises(InvalidConfig, match="line 1"):
        add_line(file, line_of("a", ["read"], "one"))
    assert file.read_text() == "hello\n"
    with pytest.raises(InvalidConfig, match="no such file or directory"):
        add_line(tmp_path / "no" / "tokens", "x")
    with pytest.raises(InvalidConfig, match='--name: "a b" is not valid; expected a name'):
        line_of("a", ["read"], "a b")
