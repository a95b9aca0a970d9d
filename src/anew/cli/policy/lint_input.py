"""What ``anew policy lint`` looks at: files, policies of the command line, the policies of an application's tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from anew.backoff import ALIASES, PRESETS
from anew.cli.remote import given_text
from anew.cli.values import read_policy
from anew.errors import InvalidInput
from anew.lab.lint import check_rules
from anew.lab.lint.documents import MAX_BYTES, Document, Entry, Problem, read_document, read_table

if TYPE_CHECKING:
    from anew.tasks.app import Anew
    from anew.tasks.task import Task

SPEC: Final = "--policy"
"""Stands for the file of a policy that was given on the command line."""

_APP: Final = re.compile(r"(?:[^\W\d][\w.]*|[^:]*\.py):[^\W\d][\w.]*")


def read(files: Sequence[str], specs: Sequence[str]) -> tuple[list[Document], list[Problem]]:
    """Read all that was given; what cannot be read becomes a document with a problem.

    Returns:
        The documents, and what decides in a task's stead and cannot be looked at: functions.
    """
    files = [file.removeprefix("@") for file in files]  # as other commands name a file
    documents = [_read_file(file) for file in files if not is_app(file)]
    documents += [_document_of(spec) for spec in specs]
    unchecked: list[Problem] = []
    for app in filter(is_app, files):
        document, functions = _read_app(app)
        documents.append(document)
        unchecked += functions
    return documents, unchecked


def _read_file(file: str) -> Document:
    try:
        content = given_text("-" if file == "-" else f"@{file}", MAX_BYTES, expected="a TOML or JSON file")
    except InvalidInput as error:
        message = str(error).removeprefix(f"@{file}: ")
        if file in PRESETS or file in ALIASES or file.startswith("{"):
            message += "; --policy takes a policy itself"
        problem = Problem(file=file, message=message)
        return Document(problems=(problem,))
    return read_document(content, file)


def _document_of(spec: str) -> Document:
    """Read a policy of the command line; one preset is called by its name, all else by its option."""
    # No preset has a name so long, and nobody wants to read it in each finding.
    name = spec if spec.isidentifier() and len(spec) <= 64 else "policy"
    try:
        value = read_policy(spec)
    except InvalidInput as error:
        problem = Problem(file=SPEC, policy=name, field=error.field, message=str(error))
        return Document(problems=(problem,))
    return Document(entries=(Entry(file=SPEC, name=name, value=value, line=None),))


def stated(
    options: dict[str, Any], select: Sequence[str], ignore: Sequence[str], documents: Sequence[Document]
) -> dict[str, Any]:
    """Give what the command line states, in the form of a document's own table.

    Raises:
        InvalidInput: No such rule or policy, or no duration.
    """
    outages = options.pop("outages")
    told = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    if outages:
        told["outage"] = outages[0] if len(outages) == 1 else [*outages]
    given, wrong = read_table(told, "--")
    if wrong:
        raise wrong[0]
    # What cannot be read has a name too.
    names = [entry.name for document in documents for entry in document.entries]
    names += [problem.policy for document in documents for problem in document.problems if problem.policy]
    for option, rules in (("select", select), ("ignore", ignore)):
        given[option] = tuple(name for listed in rules for name in listed.split(",") if name)
        check_rules(given[option], f"--{option}", names)
    return given


# ---- an application


def is_app(text: str) -> bool:
    """Report whether an argument means an application, and no file."""
    return _APP.fullmatch(text) is not None and not os.path.exists(text)


def _read_app(text: str) -> tuple[Document, list[Problem]]:
    """Import an application and read its tasks' policies; see `policies_of_tasks`.

    Returns:
        As there, or why the application cannot be imported.
    """
    from anew.tasks.finding import find_app, read_place

    try:
        app = find_app(read_place(text))
    except InvalidInput as error:
        message = str(error).removeprefix(text).removeprefix(":").lstrip()
        return Document(problems=(Problem(file=text, message=message),)), []
    return policies_of_tasks(app)


def policies_of_tasks(app: Anew) -> tuple[Document, list[Problem]]:
    """Read the policies of an application's tasks.

    One of a rule by exception is named after both: ``tasks.send[TimeoutError]``. A limit of the task
    (``max_attempts``) holds, as it does for its jobs.

    Returns:
        The policies that can be looked at; and what decides in a task's stead and cannot be looked at: functions.
    """
    tasks = [app.tasks[name] for name in sorted(app.tasks)]
    unchecked = []
    for task in tasks:
        if task.options.retries.function is not None:
            file, line = _place(task)
            message = "is not checked: a function decides when its jobs run again"
            unchecked.append(Problem(file=file, line=line, policy=task.name, message=message))
    return Document(entries=tuple(entry for task in tasks for entry in _entries(app, task))), unchecked


def _entries(app: Anew, task: Task[Any, Any, Any]) -> Iterator[Entry]:
    from anew.tasks.opening import DEFAULTS
    from anew.tasks.task import policies_of

    # A server that an application is a client of has a default of its own, which nobody knows here.
    is_unknown = task.options.retries.policy is None and "://" in app.location
    file, line = _place(task)
    for kind, policy in policies_of(task.options, DEFAULTS.policy).items():
        if is_unknown and not kind:
            continue
        name = f"{task.name}[{kind}]" if kind else task.name
        yield Entry(file=file, name=name, value=policy.to_json() | {"limit": policy.limit}, line=line)


def _place(task: Task[Any, Any, Any]) -> tuple[str, int | None]:
    """Give file and line of a task's function, decorators included."""
    code = getattr(task.function, "__code__", None)
    if code is None:
        return task.name.rpartition(".")[0], None
    path = os.path.relpath(code.co_filename)
    return (code.co_filename if path.startswith("..") else path), code.co_firstlineno
