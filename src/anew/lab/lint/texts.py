"""TOML and JSON text into values, more strictly than the parsers themselves: nothing is lost, nothing half a character."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Final

from anew.backoff.form import DoubledName, json_object

POLICIES: Final = "a policy, a list of policies, or names with a policy each"
"""What a document is expected to hold."""

_LINE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


class Unreadable(Exception):
    """Text that is no TOML or no JSON.

    Args:
        message: What is wrong, and what was expected.
        line: Where, 1 = first; None: not known.
    """

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str, ending: str) -> Any:
    """Read TOML or JSON.

    Args:
        text: The text.
        ending: The ending of the file's name, ``.toml`` or ``.json``; with another one the text itself decides, and
            a bare word is one.

    Raises:
        Unreadable: It is neither.
    """
    if ending == ".toml":
        return _toml(text)
    if ending == ".json":
        return _json(text)
    try:
        return _json(text)
    except Unreadable:
        if text.lstrip().startswith(("{", '"')):
            raise
    bare = text.strip()
    return bare if re.fullmatch(r"[a-z][a-z0-9_]*", bare) else _toml(text)


def strict_json(text: str) -> Any:
    """Read JSON.

    Raises:
        ValueError: It is none; or a name stands in one object twice, a number is none of JSON, or a string has half
            of a surrogate pair, which could be written nowhere.
        RecursionError: It is nested too deeply.
    """
    value = json.loads(text, object_pairs_hook=json_object, parse_constant=_no_constant)
    if _HALF.search(text) is not None:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ord(error.object[error.start])
            raise ValueError(f"\\u{half:04x} is half of a pair, and the other half is missing") from None
    return value


def _json(text: str) -> Any:
    expected = f"expected {POLICIES} as JSON"
    try:
        return strict_json(text)
    except DoubledName as error:
        raise Unreadable(str(error), None) from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"no JSON: {error.msg} at column {error.colno}; {expected}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no JSON that can be read: {str(error)[:200]}; {expected}", None) from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _toml(text: str) -> Any:
    expected = f"expected {POLICIES} as TOML"
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _LINE.search(str(error))
        column = f" at column {place[2]}" if place else ""
        what = _LINE.sub("", str(error)).strip()
        raise Unreadable(f"no TOML: {what}{column}; {expected}", int(place[1]) if place else None) from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no TOML that can be read: {str(error)[:200]}; {expected}", None) from None
