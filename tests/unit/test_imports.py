"""Imports point one way, as `ARROWS` says: cli -> app -> http, fwp, web, worker, tasks -> engine -> store.protocol -> jobs."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import anew

PACKAGE = Path(anew.__file__).parent

LEAVES = {"errors", "units", "clock", "zones", "config", "logs", "version"}
STORE_ROWS = {
    "store.breaker_rows",
    "store.cron_rows",
    "store.hook_rows",
    "store.key_limit_rows",
    "store.import_notes",
    "store.page_reads",
    "store.processes",
    "store.queue_rows",
    "store.record_rows",
    "store.selection",
    "store.topics",
}
STORE = {"store.protocol", *STORE_ROWS}
BELOW_ENGINE = {*STORE, "jobs", "backoff", *LEAVES}

ARROWS: dict[str, set[str]] = {
    "version": set(),
    "public": {"tasks", "backoff"},
    "errors": set(),
    "units": {"errors"},
    "clock": {"errors"},
    "zones": {"errors", "units"},
    "config": {"errors", "units"},
    "logs": {"errors", "units"},
    "backoff": {"errors", "units"},
    "jobs": {"backoff", "errors", "units"},
    "jq": {"errors"},
    "store": set(),
    "store.protocol": {*STORE_ROWS, "jobs", "errors", "clock"},
    "store.breaker_rows": {"jobs"},
    "store.cron_rows": {"jobs"},
    "store.hook_rows": {"jobs"},
    "store.key_limit_rows": {"jobs"},
    "store.import_notes": set(),
    "store.page_reads": {"store.key_limit_rows", "jobs"},
    "store.processes": {"errors"},
    "store.queue_rows": {"jobs"},
    "store.record_rows": {"store.selection", "jobs"},
    "store.selection": {"jobs"},
    "store.topics": {"errors"},
    "store.sql": {*STORE, "jobs", *LEAVES},
    "store.sqlite": {"store.sql", *STORE, "jobs", *LEAVES},
    "store.postgres": {"store.sql", *STORE, "jobs", *LEAVES},
    "engine": BELOW_ENGINE,
    "lab": {"jobs", "backoff", "errors", "units"},
    "net": LEAVES,
    "topics": {"engine", *BELOW_ENGINE},
    "http": {"net", "engine", "topics", "jq", *BELOW_ENGINE},
    "fwp": {"net", "engine", *BELOW_ENGINE},
    "admin": {"http", "net", "engine", *BELOW_ENGINE},
    "web": {"http", "net", "lab", "topics", "engine", *BELOW_ENGINE},
    "worker": {"client", "engine", *BELOW_ENGINE},
    "client": {"jobs.codec", "backoff", *LEAVES},
    "top": {"client", *LEAVES},
    "tasks": {"client", "engine", "store.sqlite", "store.postgres", "topics", "jq", *BELOW_ENGINE},
    "webhooks": {"topics", *LEAVES},
    "testing": {"tasks"},
    "opentelemetry": {"tasks", "version"},
    "prometheus": {"tasks", "jobs", *LEAVES},
    "django": {"tasks", "cli", "jobs", "errors"},
    "pytest_plugin": {"testing", "tasks"},
    "app": {
        "jq",
        "tasks",
        "topics",
        "http",
        "admin",
        "fwp",
        "net",
        "web",
        "worker",
        "engine",
        "store.sql",
        "store.sqlite",
        "store.postgres",
        *BELOW_ENGINE,
    },
    "cli": {"app", "top", "tasks", "topics", "prometheus", "client", "worker", "lab", "backoff", *LEAVES},
    "__main__": {"cli"},
}
"""What each room may import, besides itself. A new room needs a line here."""

PURE = {"backoff", "jobs"}
OUTSIDE_WORLD = {
    "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "getpass", "glob", "http", "io", "logging", "multiprocessing",
    "os", "pathlib", "platform", "queue", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "zoneinfo",
}  # fmt: skip
"""Where clocks, chance and input come from: nothing that a decision may look at by itself."""

OWNERS = {
    "apsw": "store.sqlite",
    "psycopg": "store.postgres",
    "hpack": "net",
    "websockets": "net client",
    "textual": "top",
    "rich": "top",
    "h2": "net",
    "click": "cli",
    "uvloop": "app tasks",
    "redis": "app",
    "matplotlib": "lab",
    "jinja2": "web",
    "opentelemetry": "opentelemetry",
    "django": "django",
    "django_tasks": "django",
    "asgiref": "django",
    "prometheus_client": "http prometheus",
    "jq": "jq",
    "aiohttp": "topics",
    "cryptography": "topics app",
}
"""Packages that one room alone may know, or a few."""


def module_of(path: Path) -> str:
    """The dotted name of a file below the package, without "anew."."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room_of(module: str) -> str:
    """The room of a module: its first name; the store's rooms are the protocol and each engine."""
    if module == "__version__":
        return "version"
    if module == "":
        return "public"
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "store" else parts[0]


def imported(tree: ast.AST, module: str, *, package: bool = False) -> Iterator[str]:
    """Every module that a file imports, with what is taken from it: ``anew.jobs.codec.NewJob``, ``os.path``."""
    here = ("anew." + module).rstrip(".").split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = here[: len(here) - node.level + package]
                base = ".".join([*up, base] if base else up)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def wrong_arrows(module: str, names: Iterator[str]) -> list[str]:
    """Imports of our own that do not point along the arrows."""
    room = room_of(module)
    allowed = ARROWS.get(room, set())
    wrong = []
    for name in names:
        if name != "anew" and not name.startswith("anew."):
            continue
        target = name.removeprefix("anew").removeprefix(".")
        named = {room_of(target), ".".join(target.split(".")[:2])}
        if room_of(target) != room and not named & allowed:
            wrong.append(f"{module} imports {name}")
    return wrong


SOURCES = [(module_of(path), path) for path in sorted(PACKAGE.rglob("*.py"))]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def names_of(module: str, path: Path) -> list[str]:
    return list(imported(tree_of(path), module, package=path.name == "__init__.py"))


def test_every_room_has_its_arrows() -> None:
    assert {room_of(module) for module, _ in SOURCES} <= set(ARROWS)


@pytest.mark.parametrize("room", sorted({room_of(module) for module, _ in SOURCES}))
def test_imports_point_along_the_arrows(room: str) -> None:
    files = [(module, path) for module, path in SOURCES if room_of(module) == room]
    assert [
        wrong for module, path in files for wrong in wrong_arrows(module, iter(names_of(module, path)))
    ] == []


def test_the_arrows_have_no_circle() -> None:
    def below(room: str, seen: tuple[str, ...]) -> None:
        assert room not in seen, " -> ".join([*seen, room])
        for other in ARROWS.get(room, {"jobs"} if room == "jobs.codec" else set()):
            below(other, (*seen, room))

    for room in ARROWS:
        below(room, ())


def test_engines_of_the_store_are_named_in_composition_roots_only() -> None:
    naming = {
        room_of(module)
        for module, path in SOURCES
        for name in names_of(module, path)
        if name.startswith("anew.store.") and ".".join(name.split(".")[1:3]) not in STORE
    }
    assert naming - {"store.sql", "store.sqlite", "store.postgres"} == {"app", "tasks"}


@pytest.mark.parametrize(
    ("module", "path"), [(m, p) for m, p in SOURCES if room_of(m) in PURE], ids=lambda x: str(x)[-40:]
)
def test_decisions_look_at_no_clock_no_chance_and_no_world(module: str, path: Path) -> None:
    assert {name.split(".")[0] for name in names_of(module, path)} & OUTSIDE_WORLD == set()
    names = {node.id for node in ast.walk(tree_of(path)) if isinstance(node, ast.Name)}
    assert not {"open", "print", "input", "exec", "eval", "__import__"} & names


@pytest.mark.parametrize(("package", "owner"), OWNERS.items())
def test_some_packages_are_one_rooms_business(package: str, owner: str) -> None:
    users = {
        room_of(module)
        for module, path in SOURCES
        for name in names_of(module, path)
        if name.split(".")[0] == package
    }
    assert users <= set(owner.split())


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("jobs.decide", "from anew.engine import Engine", 1),
        ("jobs.decide", "import anew.store.protocol", 1),
        ("jobs.decide", "from ..store import protocol", 1),
        ("jobs.decide", "from anew.backoff import Policy\nfrom .ids import IdText", 0),
        ("engine.ops", "if X:\n    from anew.store.sqlite import open_sqlite", 1),
        ("engine.ops", "from anew.store import sqlite", 1),
        ("engine.ops", "def f():\n    from anew.http import api", 1),
        ("store.sql.rows", "from anew.store.protocol import Rewrite", 0),
        ("client.client", "from anew.jobs.codec import NewJob", 0),
        ("client.client", "from anew.jobs.decide import after", 1),
        ("cli.root", "from anew import __version__, app", 0),
        ("errors", "from anew import units", 1),
    ],
)  # fmt: skip
def test_a_wrong_arrow_would_be_seen(module: str, text: str, wrong: int) -> None:
    assert len(wrong_arrows(module, imported(ast.parse(text), module))) == wrong


EDGES = ("http", "admin", "fwp", "web", "worker", "client", "cli")
OF_A_STORE = {
    "Store", "Reader", "Staging", "Device", "OutboxRows", "QueueRows", "SlotRows", "RecordRows", "BreakerRows", "ImportNotes",
    "Turns", "Processes", "HookRows", "KeyLimitRows", "CronRows", "TopicRows",
}  # fmt: skip


def touches(tree: ast.AST) -> list[str]:
    """Where a file reaches for a store: an attribute of that name, or a class of the store's protocol that is one."""
    found = [
        f"line {node.lineno}: .store"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "store"
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anew.store."):
            found += [f"line {node.lineno}: {alias.name}" for alias in node.names if alias.name in OF_A_STORE]
    return found


@pytest.mark.parametrize("module", [module for module, _ in SOURCES if room_of(module) in EDGES])
def test_no_edge_touches_a_store(module: str) -> None:
    """It submits operations, or asks `engine.reads`."""
    assert touches(tree_of(dict(SOURCES)[module])) == []


def test_touching_a_store_is_seen() -> None:
    text = "from anew.store.protocol import Named, Reader\nfrom anew.store.processes import Turns\nengine.store.load([1])\n"
    assert touches(ast.parse(text)) == ["line 3: .store", "line 1: Reader", "line 2: Turns"]
