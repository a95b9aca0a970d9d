"""TOML and JSON text into values, more strictly than the parsers themselves: nothing is lost, nothing half a character."""

from __future__ import annotations

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


# ---- where things stand in a text: the line of a policy and of a field, as far as that can be told


_SPACE: Final = re.compile(r"[\s,:]*")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


class Lines:
    """The lines of one text.

    Args:
        text: TOML or JSON.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        # Of a thousand policies each would else be looked for from the beginning.
        self._known: dict[tuple[str | int, ...], dict[str | int, tuple[int, int]]] = {}
        self._places: dict[tuple[str, ...], list[int]] = {}

    def of_path(self, path: Sequence[str | int]) -> int | None:
        """Give the line on which the value at a path begins, 1 = first; None if it cannot be found."""
        if not path:
            return 1
        if self._text.lstrip()[:1] in ("{", "["):
            try:
                return self._line(self._json_place(path))
            except (ValueError, LookupError, RecursionError):
                pass
        return self._toml_line(path)

    def of_field(self, field: str, start: int | None = None) -> int | None:
        """Give the first line, from a start on, that sets a field of this name; the last part of its path counts."""
        name = re.sub(r"\[\d+\]", "", field).rpartition(".")[2]
        if not name:
            return None
        pattern = re.compile(rf"""(?<![\w-])["']?{_either(name)}["']?\s*[=:]""")
        for number, line in enumerate(self._text.splitlines(), start=1):
            if number >= (start or 1) and pattern.search(line):
                return number
        return None

    def _line(self, place: int) -> int:
        return self._text.count("\n", 0, place) + 1

    def _json_place(self, path: Sequence[str | int]) -> int:
        """Find where a path leads in a JSON text; ValueError or LookupError if it leads nowhere."""
        return self._inside(tuple(path[:-1]))[path[-1]][0]

    def _inside(self, path: tuple[str | int, ...]) -> dict[str | int, tuple[int, int]]:
        """Give what an object or a list holds: where each member begins, and where its value does."""
        if path not in self._known:
            place = self._inside(path[:-1])[path[-1]][1] if path else self._skip(0)
            self._known[path] = self._members(place)
        return self._known[path]

    def _members(self, place: int) -> dict[str | int, tuple[int, int]]:
        decoder, opening = json.JSONDecoder(), self._text[place]
        if opening not in "{[":
            raise ValueError(f"{opening} opens nothing")
        found: dict[str | int, tuple[int, int]] = {}
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

    def _toml_line(self, path: Sequence[str | int]) -> int | None:
        names = tuple(part for part in path if isinstance(part, str))
        if not names:
            return None
        ordinal = next((part for part in path if isinstance(part, int)), 0)
        if names not in self._places:
            self._places[names] = self._toml_places(names)
        places = self._places[names]
        return self._line(places[min(ordinal, len(places) - 1)]) if places else None

    def _toml_places(self, names: tuple[str, ...]) -> list[int]:
        """Give where the tables of a name begin; if there are none, where it is first set."""
        dotted = r"\s*\.\s*".join(_quoted(name) for name in names)
        header = re.compile(rf"^\s*\[+\s*{dotted}\s*[\].]", re.MULTILINE)
        key = re.compile(rf"^\s*(?:{dotted}|{_quoted(names[-1])})\s*[=.]", re.MULTILINE)
        lines = self._lines_with(names[-1])
        for pattern in (header, key):
            found = [match for start in lines if (match := pattern.match(self._text, start))]
            if found:
                # An empty name is in every line, and a blank line is part of what follows it.
                places = dict.fromkeys(match.end() - len(match[0].lstrip()) for match in found)
                return [*places] if pattern is header else [*places][:1]
        return []

    def _lines_with(self, name: str) -> list[int]:
        """Give where each line begins that has a name in it: a tenth of the time of a pattern over the whole text."""
        starts: dict[int, None] = {}
        place = self._text.find(name)
        while place >= 0:
            starts[self._text.rfind("\n", 0, place) + 1] = None
            end = self._text.find("\n", place)
            place = self._text.find(name, end + 1) if end >= 0 else -1
        return [*starts]


def _quoted(name: str) -> str:
    plain = re.escape(name)
    quoted = rf'(?:"{plain}"|\'{plain}\')'
    return rf"(?:{plain}|{quoted})" if _PLAIN.fullmatch(name) else quoted


def _either(name: str) -> str:
    """Give a pattern for a name with hyphens or underscores: ``anew.toml`` takes both."""
    return re.sub(r"\\?[-_]", "[-_]", re.escape(name))
