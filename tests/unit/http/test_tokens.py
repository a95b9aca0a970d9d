"""Whose token it is: looked up by digest, remembered within bounds, read again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from anew.config.token_file import line_of
from anew.errors import InvalidConfig
from anew.http import tokens as tokens_module
from anew.http.tokens import Tokens


def written(file: Path, *tokens: str) -> Path:
    """A file in which these tokens may work."""
    file.touch(0o600)
    file.write_text("".join(line_of(token, ["worker"], "w") + "\n" for token in tokens))
    return file


def name_of(tokens: Tokens, header: bytes) -> str | None:
    found = tokens.bearer(header)
    return None if found is None else found.name


def test_a_token_is_known_as_a_bearer_in_one_spelling_and_as_a_password(tmp_path: Path) -> None:
    tokens = Tokens(written(tmp_path / "tokens", "abc"), "s3cret")
    assert [name_of(tokens, header) for header in (b"Bearer abc", b"Bearer abc", b"Bearer s3cret")] == [
        "w",
        "w",
        "--token",
    ]
    wrong = (
        b"",
        b"Bearer",
        b"Bearer ",
        b"bearer abc",
        b"Bearer abc ",
        b"Basic abc",
        b"abc",
        b"Bearer ab",
        b"Bearer \xff",
    )
    assert [name_of(tokens, header) for header in wrong] == [None] * len(wrong)
    assert tokens.find(b"abc") is not None
    assert tokens.find(b"") is None
    assert (len(tokens), tokens.roles()) == (2, {"admin", "worker"})


def test_reliability_57_a_token_of_the_file_is_found_by_its_digest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked up is the SHA-256 of what came, right or wrong: nothing is compared with a token."""
    looked: list[bytes] = []
    real = tokens_module.digest_of
    monkeypatch.setattr(tokens_module, "digest_of", lambda secret: looked.append(secret) or real(secret))
    tokens = Tokens(written(tmp_path / "tokens", "abcdef"))
    for guess in (b"Xbcdef", b"abcdeX", b"", b"abcdef"):
        tokens.bearer(b"Bearer " + guess)
    assert looked == [b"Xbcdef", b"abcdeX", b"", b"abcdef"]
    assert tokens.find(b"abcdef") == tokens._by_digest[hashlib.sha256(b"abcdef").digest()]


def test_guesses_are_not_remembered_and_tokens_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "MOST_REMEMBERED", 2)
    tokens = Tokens(written(tmp_path / "tokens", "a", "b", "c"))
    for header in (b"Bearer x", b"Bearer a", b"Bearer a", b"Bearer b", b"Bearer c"):
        tokens.bearer(header)
    assert tokens._by_header.keys() == {b"Bearer a", b"Bearer b"}
    assert name_of(tokens, b"Bearer c") == "w"


def test_a_file_that_is_read_again_replaces_all_tokens_and_one_that_cannot_be_read_none(
    tmp_path: Path,
) -> None:
    file = written(tmp_path / "tokens", "old")
    tokens = Tokens(file, "s3cret")
    assert name_of(tokens, b"Bearer old") == "w"
    written(file, "old", "new")
    tokens.reload()
    assert [name_of(tokens, header) for header in (b"Bearer old", b"Bearer new")] == ["w", "w"]
    file.write_text("nonsense\n")
    with pytest.raises(InvalidConfig):
        tokens.reload()
    assert [name_of(tokens, header) for header in (b"Bearer old", b"Bearer new")] == ["w", "w"]
    written(file, "new")
    tokens.reload()
    assert [name_of(tokens, header) for header in (b"Bearer old", b"Bearer new", b"Bearer s3cret")] == [
        None,
        "w",
        "--token",
    ]
