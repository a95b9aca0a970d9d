"""TOML and JSON text into values, more strictly than the parsers themselves: nothing is lost, nothing half a character."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, Final

from anew.backoff.form import DoubledName, json_object

POLICIES: Final = "a policy, a list of policies, or names with a policy each"
"""What a document is expected to hold."""

_LINE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


class Unreadable(Exception):
    """Text that is no TOML or no JSON, on a line, 1 = first; None: not known."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str, ending: str) -> Any:
    """Read TOML or JSON, or raise `Unreadable`.

    The ending of the file's name decides, ``.toml`` or ``.json``; with another one the text itself, and a bare word is one.
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


# ---- where things stand in a text: the line of a policy and of a field, as far as that can be told


_SPACE: Final = re.compile(r"[\s,:]*")
_TOML_LINE: Final = re.compile(r"""(\[.*\]|(?:[\w.\s-]|"[^"]*"|'[^']*')*(?==))""")


class Lines:
    """The lines of one text, TOML or JSON, 1 = first."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._inside: dict[int, dict[str | int, tuple[int, int]]] = {}

    def of_path(self, path: Sequence[str | int]) -> int | None:
        """Give the line on which the value at a path begins; None if it cannot be found."""
        if not path:
            return 1
        if self._text.lstrip()[:1] in ("{", "["):
            with contextlib.suppress(ValueError, LookupError, RecursionError):
                begin, place = 0, self._skip(0)
                for part in path:
                    begin, place = self._members(place)[part]
                return self._text.count("\n", 0, begin) + 1
        names = tuple(part for part in path if isinstance(part, str))
        ordinal = next((part for part in path if isinstance(part, int)), 0)
        lines = self._toml.get(names, [])
        return lines[min(ordinal, len(lines) - 1)] if lines else None

    def of_field(self, field: str, start: int | None = None) -> int | None:
        """Give the first line, from a start on, that sets a field of this name; the last part of its path counts."""
        name = re.sub(r"\[\d+\]", "", field).rpartition(".")[2]
        if not name:
            return None
        either = re.sub(r"\\?[-_]", "[-_]", re.escape(name))  # anew.toml takes both
        pattern = re.compile(rf"""(?<![\w-])["']?{either}["']?\s*[=:]""")
        for number, line in enumerate(self._text.splitlines(), start=1):
            if number >= (start or 1) and pattern.search(line):
                return number
        return None

    def _members(self, place: int) -> dict[str | int, tuple[int, int]]:
        """Give what the object or list at a place of a JSON text holds: where each member begins, and where its value does."""
        if place in self._inside:
            return self._inside[place]
        decoder, opening = json.JSONDecoder(), self._text[place]
        if opening not in "{[":
            raise ValueError(f"{opening} opens nothing")
        found = self._inside[place] = {}
        place = self._skip(place + 1)
        while self._text[place] not in "}]":
            begin, name = place, len(found)
            if opening == "{":
                name, place = decoder.raw_decode(self._text, place)
                place = self._skip(place)
            found[name] = begin, place
            place = self._skip(decoder.raw_decode(self._text, place)[1])
        return found

    def _skip(self, place: int) -> int:
        found = _SPACE.match(self._text, place)
        return found.end() if found else place

    @functools.cached_property
    def _toml(self) -> dict[tuple[str, ...], list[int]]:
        """Where each table of a TOML text begins, or where a value is first set."""
        found: dict[tuple[str, ...], list[int]] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(self._text.split("\n"), start=1):
            match = _TOML_LINE.match(line.strip())
            names = _toml_names(match[1]) if match else ()
            is_table = bool(names) and match is not None and match[1].startswith("[")
            table = names if is_table else table
            names = names if is_table else (*table, *names)
            if is_table and names in found:
                found[names].append(number)
            for end in range(1, len(names) + 1):
                found.setdefault(names[:end], [number])
        return found


def _toml_names(text: str) -> tuple[str, ...]:
    """Give the path that a table's heading, or what stands before an equals sign, leads along; () if it is none of them."""
    try:
        value: Any = tomllib.loads(text if text.startswith("[") else f"{text} = 0")
    except ValueError:
        return ()
    names = []
    while value:
        value = value[0] if isinstance(value, list) else value
        for name, inner in value.items():
            names.append(name)
            value = inner
    return tuple(names)
