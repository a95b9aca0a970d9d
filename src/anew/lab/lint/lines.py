"""Where things stand in a text: the line of a policy and of a field, as far as that can be told."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

_SPACE: Final = re.compile(r"[\s,:]*")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


class Lines:
    """The lines of one text.

    Args:
        text: TOML or JSON.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def of_path(self, path: Sequence[str | int]) -> int | None:
        """Give the line on which the value at a path begins, 1 = first; None if it cannot be found."""
        if not path:
            return 1
        if self._text.lstrip()[:1] in ("{", "["):
            try:
                return self._line(self._json_place(path))
            except (ValueError, IndexError, RecursionError):
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
        """Walk down a JSON text along a path; ValueError or IndexError if it does not lead there."""
        decoder, place = json.JSONDecoder(), self._skip(0)
        named = place
        for part in path:
            opening = self._text[place]
            place = self._skip(place + 1)
            index = 0
            while True:
                named = place
                key: str | int = index
                if opening == "{":
                    key, place = decoder.raw_decode(self._text, place)
                    place = self._skip(place)
                if key == part:
                    break
                place = self._skip(decoder.raw_decode(self._text, place)[1])
                index += 1
        return named

    def _skip(self, place: int) -> int:
        found = _SPACE.match(self._text, place)
        return found.end() if found else place

    def _toml_line(self, path: Sequence[str | int]) -> int | None:
        names = [part for part in path if isinstance(part, str)]
        ordinal = next((part for part in path if isinstance(part, int)), 0)
        dotted = r"\s*\.\s*".join(_quoted(name) for name in names)
        header = re.compile(rf"^\s*\[+\s*{dotted}\s*[\].]", re.MULTILINE)
        key = re.compile(rf"^\s*(?:{dotted}|{_quoted(names[-1])})\s*[=.]", re.MULTILINE)
        for pattern in (header, key):
            found = list(pattern.finditer(self._text))
            if found:
                match = found[min(ordinal, len(found) - 1)] if pattern is header else found[0]
                return self._line(match.start() + len(match[0]) - len(match[0].lstrip()))
        return None


def _quoted(name: str) -> str:
    plain = re.escape(name)
    quoted = rf'(?:"{plain}"|\'{plain}\')'
    return rf"(?:{plain}|{quoted})" if _PLAIN.fullmatch(name) else quoted


def _either(name: str) -> str:
    """Give a pattern for a name with hyphens or underscores: ``anew.toml`` takes both."""
    return re.sub(r"\\?[-_]", "[-_]", re.escape(name))
