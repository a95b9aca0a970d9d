"""Reads what people type: policies, payloads, moments, and the options that new jobs and patches share."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
from collections.abc import Callable, Sequence
from os.path import exists, isfile
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import msgspec

from anew.cli.output import now_ms
from anew.cli.remote import given_text
from anew.errors import InvalidInput, InvalidJob, InvalidPolicy
from anew.units import parse_duration_with_unit, shown

if TYPE_CHECKING:
    from anew.backoff import Policy
    from anew.lab.lint.documents import Entry, Problem
    from anew.lab.named import Named

F = TypeVar("F", bound=Callable[..., Any])

_POLICY_BYTES: Final = 1 << 20
"""The longest text of a policy that is read here, blanks and line ends included."""

_PATH: Final = 4_096
"""No path is longer, so nothing longer is looked for."""

_NAMES: Final = 12
"""So many names of a file's policies are listed."""


class GivenPolicy(NamedTuple):
    """A policy as it was given.

    Args:
        name: What it is called in its file, or the file; "" where it came from elsewhere.
        value: Its JSON value.
    """

    name: str
    value: Any


def read_policy(text: str) -> Any:
    """Read a policy's JSON value from an argument, as `given_policy` does."""
    return given_policy(text).value


def read_engine_policy(text: str) -> Policy:
    """Read the policy by which the engine retries, from a policy's argument or a delivery policy's."""
    from anew.backoff import Policy

    return Policy.from_json(given_policy(text, delivery=True).value)


def named_policies(texts: Sequence[str]) -> tuple[list[Any], list[Named]]:
    """Read policies as `read_engine_policy` does; give their JSON values, and the policies as tables and pictures name them."""
    from anew.backoff import Policy
    from anew.lab.named import Named, labels

    names, forms = zip(*(given_policy(text, delivery=True) for text in texts), strict=True)
    policies = [Policy.from_json(form) for form in forms]
    return [*forms], [Named(*pair) for pair in zip(labels(forms, names), policies, strict=True)]


def given_policy(text: str, *, delivery: bool = False) -> GivenPolicy:
    """Read a policy from an argument: JSON, a preset's name, ``@file``, ``@file:name`` or ``-``.

    A file, and stdin, may hold JSON or TOML as `anew policy lint` reads it: one policy, or several with names.

    Args:
        text: The argument.
        delivery: A delivery policy in JSON may stand there too; what is given is the policy that the engine makes of it.

    Raises:
        InvalidInput: The file cannot be read.
        InvalidPolicy: It is no policy; the message names field, value and expectation.
    """
    if text == "-" or text.startswith("@"):
        return _pointed_at(text, delivery)
    # Inside: most commands meet no policy, and the engine is not small.
    from anew.backoff import Policy

    value = _json_or_word(text, given_text(text, _POLICY_BYTES))
    if delivery and _is_delivery(value):
        return GivenPolicy("", _engine_policy(value))
    try:
        Policy.from_json(value)
    except InvalidPolicy as error:
        file, _ = _file_and_name(f"@{text}")
        if isinstance(value, str) and isfile(file[1:]):
            message = (
                f"policy: {shown(text)} is not valid: it is no preset, but a file; did you mean @{text}?"
            )
            raise InvalidPolicy(message, field="policy", value=text) from error
        raise
    return GivenPolicy("", value)


def _json_or_word(text: str, content: bytes) -> Any:
    """Read JSON, or a word that may be the name of a preset."""
    from anew.backoff.form import DoubledName, json_object

    content = content.strip()
    word = content.decode(errors="replace")
    if not content:
        where = "stdin (which can be read once)" if text == "-" else shown(text)
        raise InvalidPolicy(
            f"policy: {where} holds nothing; expected JSON or the name of a preset",
            field="policy",
            value=text,
        )
    if content[:1] not in (b"{", b"[", b'"'):
        return word
    try:
        json.loads(content, object_pairs_hook=json_object)
        return msgspec.json.decode(content)
    except DoubledName:
        raise
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidPolicy(
            f"policy: {word[:60]!r} is not JSON ({json_problem(error)}); expected JSON or the name of a preset",
            field="policy",
            value=text,
        ) from error


def _is_delivery(value: Any) -> bool:
    """Tell a delivery policy by its blocks, of which one says when to retry."""
    blocks = {"retry", "throttle", "request", "health"}
    return isinstance(value, dict) and isinstance(value.get("retry"), dict) and value.keys() <= blocks


def _engine_policy(document: Any) -> Any:
    """Give the policy by which the engine retries a delivery.

    Raises:
        InvalidInput: It is no delivery policy.
    """
    from anew.topics.delivery_policy import engine_policy, preview

    return msgspec.json.decode(engine_policy(preview(document).retry))


def _pointed_at(text: str, delivery: bool) -> GivenPolicy:
    """Read the policy of a file, or of stdin, that has one, or the one of its policies that was named."""
    file, name = _file_and_name(text)
    content = given_text(file, _POLICY_BYTES)
    if not content.strip():
        _json_or_word(text, content)
    if delivery and not name and content.lstrip().startswith(b"{"):
        from anew.backoff.form import json_object

        # Before files of named policies: one whose only names are the four blocks is a delivery policy.
        with contextlib.suppress(ValueError, RecursionError):
            if _is_delivery(value := json.loads(content, object_pairs_hook=json_object)):
                return GivenPolicy("" if file == "-" else PurePath(file[1:]).stem, _engine_policy(value))
    # Inside: this is lint's reader, which no other way to give a policy needs.
    from anew.lab.lint.documents import read_document

    path = "-" if file == "-" else file[1:]
    word = content.strip().decode(errors="replace")
    document = read_document(content, "-" if word.isidentifier() else path)
    for problem in document.problems:
        if not problem.policy:
            raise InvalidPolicy(_problem_text(file, problem), field=problem.field or "policy", value=text)
    found = [entry for entry in document.entries if name in ("", entry.name)]
    wrong = [problem for problem in document.problems if problem.policy and name in ("", problem.policy)]
    if len(found) + len(wrong) != 1:
        names = [entry.name for entry in document.entries] + [problem.policy for problem in document.problems]
        raise InvalidPolicy(_choice(file, name, names), field="policy", value=text)
    if wrong:
        raise InvalidPolicy(_problem_text(file, wrong[0]), field=wrong[0].field, value=text)
    return GivenPolicy("" if word.isidentifier() else found[0].name, _held(found[0]))


def _file_and_name(text: str) -> tuple[str, str]:
    """Part ``@file:name``; a colon may also stand in the name of a file."""
    if len(text) <= _PATH and not exists(text[1:]):
        for place, sign in enumerate(text):
            if sign == ":" and exists(text[1:place]):
                return text[:place], text[place + 1 :]
    return text, ""


def _problem_text(file: str, problem: Problem) -> str:
    """Say what is wrong in a file, and where."""
    where = "stdin" if file == "-" else file
    return f"{where}{'' if problem.line is None else f', line {problem.line}'}: {problem.message}"


def _choice(file: str, name: str, names: Sequence[str]) -> str:
    """Say which policies a file has."""
    where = "stdin" if file == "-" else file
    if not names:
        return f"policy: {where} holds no policy; expected one, or several with names"
    listed = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
    what = f"holds {len(names)} policies" if not name or name in names else f"holds no policy {shown(name)}"
    if file == "-":
        return f"policy: {where} {what}: {listed}; expected one, or a file: @FILE:{names[0]}"
    return f"policy: {where} {what}; expected one of {listed}: {file}:{names[0]}"


def _held(entry: Entry) -> Any:
    """Give a policy's JSON value, to which its file may add a limit of its own."""
    from anew.backoff import DEFAULT_LIMIT

    if entry.default_limit == DEFAULT_LIMIT or entry.policy().limit_given:
        return entry.value
    own = {"preset": entry.value} if isinstance(entry.value, str) else entry.value
    return own | {"limit": entry.default_limit}


def read_document(text: str) -> Any:
    """Read a JSON document from an argument: a file's name, with or without ``@``, or ``-``, or JSON itself.

    Raises:
        InvalidInput: The file cannot be read, or has no JSON.
    """
    from anew.backoff.form import DoubledName, json_object

    is_json = text.lstrip()[:1] in ("{", "[", '"')
    source = text if is_json or text == "-" else "@" + text.removeprefix("@")
    try:
        content = given_text(source, _POLICY_BYTES, expected="a file with JSON, - for stdin, or JSON itself")
    except InvalidInput as error:
        # Here a file needs no @ before its name.
        raise InvalidInput(str(error).removeprefix("@"), field="file", value=text) from error
    try:
        # The standard library alone tells doubled names; msgspec is the stricter one.
        json.loads(content, object_pairs_hook=json_object)
        return msgspec.json.decode(content)
    except DoubledName:
        raise
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        what = "stdin" if text == "-" else shown(text) if is_json else text
        raise InvalidInput(
            f"{what}: holds no JSON ({json_problem(error)})", field="document", value=text
        ) from error


def json_problem(error: Exception) -> str:
    """Word why a text is no JSON; that it nests too deeply is said of Python by its interpreter."""
    return "it nests too deeply" if isinstance(error, RecursionError) else str(error)


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
            f"payload: {given!r} is not JSON ({json_problem(error)}); a text is written with its own quotes: '\"text\"'",
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


def job_options(moment: str) -> Callable[[F], F]:
    """Give a command the options that new jobs and patches share; it receives what was given as `settings`.

    Args:
        moment: The option that says when the job may run.
    """
    shared = (
        click.option("--delay", metavar="TIME", help="Run it so much later: 5m, 1h30m."),
        click.option(moment, "at", metavar="MOMENT", help="Run it then: 2026-12-24T18:00 (local), ...Z, +01:00."),
        click.option("--priority", type=click.IntRange(0, 65535), metavar="N", help="Low first; 32768 if never set."),
        click.option("--policy", metavar="POLICY", help="Retry policy: JSON, a preset's name, @file."),
        click.option("--retry-limit", type=click.IntRange(min=0), metavar="N", help="Retries after the first run."),
        click.option("--keep-completed", metavar="TIME", help="Keep it so long after it has completed: 1h."),
        click.option("--keep-dead", metavar="TIME", help="Keep it so long after it has died: 7d."),
    )  # fmt: skip

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def command(*args: Any, **options: Any) -> Any:
            take = options.pop
            policy = take("policy")
            given = {
                "ready_at": _when(take("delay"), take("at"), moment),
                "priority": take("priority"),
                "policy": None if policy is None else read_policy(policy),
                "retry_limit": take("retry_limit"),
                "retention": _retention(take("keep_completed"), take("keep_dead")),
            }
            settings = {name: value for name, value in given.items() if value is not None}
            return function(*args, settings=settings, **options)

        wrapped: Any = command
        for option in reversed(shared):
            wrapped = option(wrapped)
        result: F = wrapped
        return result

    return decorate


def _when(delay: str | None, at: str | None, flag: str) -> int | None:
    if delay is not None and at is not None:
        raise InvalidInput(f"--delay and {flag}: both say when; expected one of them", field="delay")
    if delay is not None:
        return now_ms() + parse_duration_with_unit(delay, "--delay")
    return None if at is None else read_moment(at, flag)


def _retention(completed: str | None, dead: str | None) -> dict[str, int] | None:
    given = {"completed_ms": (completed, "--keep-completed"), "dead_ms": (dead, "--keep-dead")}
    parsed = {
        name: parse_duration_with_unit(text, flag) for name, (text, flag) in given.items() if text is not None
    }
    return parsed or None
