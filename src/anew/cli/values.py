"""Reads what people type: policies, payloads, moments."""

from __future__ import annotations

import datetime
import json
from typing import Any, Final

import msgspec

from anew.cli.remote import given_text
from anew.errors import InvalidInput, InvalidJob, InvalidPolicy
from anew.units import shown

_POLICY_BYTES: Final = 1 << 20
"""The longest text of a policy that is read here, blanks and line ends included."""


def read_policy(text: str) -> Any:
    """Read a policy's JSON value from an argument: JSON, a preset's name, ``@file`` or ``-``.

    Raises:
        InvalidPolicy: It is no JSON, or it is no policy; the message names field, value and expectation.
    """
    # Inside: most commands meet no policy, and the engine is not small.
    from anew.backoff import Policy
    from anew.backoff.form import json_object

    content = given_text(text, _POLICY_BYTES).strip()
    value: Any = content.decode(errors="replace")
    if not content:
        where = "stdin (which can be read once)" if text == "-" else shown(text)
        raise InvalidPolicy(
            f"policy: {where} holds nothing; expected JSON or the name of a preset",
            field="policy",
            value=text,
        )
    if content[:1] in (b"{", b"[", b'"'):
        try:
            json.loads(content, object_pairs_hook=json_object)
            value = msgspec.json.decode(content)
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise InvalidPolicy(
                f"policy: {value[:60]!r} is not JSON ({error}); expected JSON or the name of a preset",
                field="policy",
                value=text,
            ) from error
    Policy.from_json(value)
    return value


def read_payload(text: str) -> msgspec.Raw:
    """Read a payload from an argument: JSON, ``@file`` or ``-``. It is sent byte for byte.

    Raises:
        InvalidJob: It is no JSON.
    """
    content = given_text(text).strip()
    try:
        msgspec.json.decode(content)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        given = content[:60].decode(errors="replace")
        raise InvalidJob(
            f"payload: {given!r} is not JSON ({error}); a text is written with its own quotes: '\"text\"'",
            field="payload",
        ) from error
    return msgspec.Raw(content)


def read_moment(text: str, field: str) -> int:
    """Read a moment: ISO 8601 (without zone: this machine's own), or epoch milliseconds.

    Raises:
        InvalidInput: It is neither.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return round(datetime.datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"{field}: {text!r} is not valid; expected a time such as 2026-12-24T18:00 or ...T18:00:00Z",
            field=field,
            value=text,
        ) from error
