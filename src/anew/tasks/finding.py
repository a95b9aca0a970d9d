"""Finds the application that ``module:name`` or ``path/to/file.py:name`` names, and imports it."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from anew.errors import InvalidInput
from anew.tasks import app as applications
from anew.tasks.app import Anew


class AppPlace(NamedTuple):
    """Where an application is.

    Attributes:
        text: As it was given.
        folder: What has to be on ``sys.path``.
        module: The module's name.
        file: The module's file, where that was given instead.
        name: The application's name there, dots included; "": the only one.
    """

    text: str
    folder: Path
    module: str
    file: Path | None
    name: str


def read_place(text: str) -> AppPlace:
    """Read where an application is.

    A file is imported as the module that it is: below the topmost of the folders above it that are packages.

    Args:
        text: ``module:name``, ``path/to/file.py:name``, or either without a name.

    Raises:
        InvalidInput: It is neither, or there is no such file.
    """
    where, _, name = text.partition(":") if not text.endswith(".py") else (text, "", "")
    parts = [*where.split("."), *(name.split(".") if name else ())]
    if where.endswith(".py"):
        file = Path(where).resolve()
        if not file.is_file():
            raise InvalidInput(
                f"{text}: there is no file {where}; expected module:app or path/to/file.py:app"
            )
        folder, module = file.parent, file.stem
        while (folder / "__init__.py").exists():
            folder, module = folder.parent, f"{folder.name}.{module}"
        return AppPlace(text, folder, module, file, name)
    if not all(part.isidentifier() for part in parts):
        raise InvalidInput(
            f"{text!r} names no application; expected module:app or path/to/file.py:app",
            field="app",
            value=text,
        )
    return AppPlace(text, Path.cwd(), where, None, name)


def find_app(place: AppPlace) -> Anew:
    """Import an application.

    Raises:
        InvalidInput: The module cannot be imported (with its own error, and where that was), has no such application, or one
            without tasks: a worker would fail every job as that of an unknown task.
    """
    module = _import(place)
    app = _named_app(place, module) if place.name else _only_app(place, module)
    if not app.tasks:
        raise InvalidInput(
            f"{place.text}: the application has no tasks; expected a module that imports them too"
        )
    return app


def _named_app(place: AppPlace, module: ModuleType) -> Anew:
    try:
        found = attrgetter(place.name)(module)
    except AttributeError:
        raise InvalidInput(
            f"{place.text}: the module has no {place.name!r}; expected {_expected(_apps_in(module))}"
        ) from None
    if not isinstance(found, Anew):
        raise InvalidInput(
            f"{place.text} is of the type {type(found).__name__}; expected an application: app = Anew(...)"
        )
    return found


def _only_app(place: AppPlace, module: ModuleType) -> Anew:
    found = _apps_in(module)
    if len(found) != 1:
        raise InvalidInput(
            f"{place.text}: the module has {len(found)} applications; expected {_expected(found)}"
        )
    (app,) = found.values()
    return app


def _expected(found: Mapping[str, Anew]) -> str:
    return f"one of {', '.join(found)}" if found else "an application: app = Anew(...)"


def _apps_in(module: ModuleType) -> dict[str, Anew]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Anew)}


def _import(place: AppPlace) -> ModuleType:
    folder = str(place.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    before, applications.importing = applications.importing, True
    try:
        module = importlib.import_module(place.module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place.module}.".startswith(f"{error.name}."):
            raise _refused(place, error) from error
        raise InvalidInput(
            f"{place.text}: there is no module {error.name!r}; expected one in {folder} or an installed one"
        ) from error
    except (Exception, SystemExit) as error:
        raise _refused(place, error) from error
    finally:
        applications.importing = before
    if (
        place.file is not None
        and Path(getattr(module, "__file__", None) or os.devnull).resolve() != place.file
    ):
        raise InvalidInput(
            f"{place.text}: another module has the name {place.module!r}; expected a file of another name"
        )
    return module


def _refused(place: AppPlace, error: BaseException) -> InvalidInput:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InvalidInput(f"{place.text} cannot be imported: {_where(place, error)}{what}")


def _where(place: AppPlace, error: BaseException) -> str:
    """Give file and line of an error: the innermost of the user's own files, which is where something can be mended."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}: "
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(place.folder) and "site-packages" not in frame.filename
    ]
    return f"{_shown(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""


def _shown(file: str) -> str:
    path = os.path.relpath(file)
    return file if path.startswith("..") else path
