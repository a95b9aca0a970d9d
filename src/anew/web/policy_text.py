"""A policy's JSON as the page writes and reads it."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.backoff.form import json_object


def compact(policy: Policy) -> str:
    """Give a policy's canonical JSON in one line that is easy to read."""
    return json.dumps(policy.to_json(), ensure_ascii=False)


def decoded(text: str) -> Any:
    """Give the value that a text stands for.

    Raises:
        ValueError: It is no JSON, or has an object with the same name twice.
        RecursionError: It is nested too deeply.
    """
    json.loads(text, object_pairs_hook=json_object)
    return msgspec.json.decode(text)


_EXPECTED: Final = {
    "Expecting value": "a value: a string in double quotes, a number, an object, a list, true, false or null",
    "Expecting ',' delimiter": "a comma, or the bracket that closes what is open",
    "Expecting ':' delimiter": "a colon between the name and its value",
    "Expecting property name enclosed in double quotes": "a name in double quotes",
    "Illegal trailing comma before end of object": "another name after the comma, or no comma",
    "Illegal trailing comma before end of array": "another value after the comma, or no comma",
    "Unterminated string starting at": "a double quote at the end of the string that begins there",
    "Invalid control character at": "a string without line breaks and tabs",
    "Extra data": "nothing more: the policy has ended",
}
"""What Python's reader misses, in words for people."""


def why_unread(error: ValueError | RecursionError) -> str:
    """Say why `decoded` could not read a text: where, and what was expected there."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    known = next((words for text, words in _EXPECTED.items() if error.msg.startswith(text)), "")
    where = f"line {error.lineno}, column {error.colno}"
    if not known:
        return f"{where}: {error.msg}"
    rest = error.doc[error.pos :].lstrip()
    there = "the text ends" if not rest else f"there is {rest.split()[0][:20]}"
    return f"{where}: {there}; expected {known}"
