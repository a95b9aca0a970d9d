"""The examples of docs/postgres.md, on a real server: its Python as it is printed, its SQL too."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.postgres import empty_database
from tests.unit.docs import ROOT, blocks

PAGE = ROOT / "docs" / "postgres.md"
ADDRESS = "postgresql://ada@db.example.org/jobs"


def test_the_examples_run() -> None:
    database = empty_database()
    first, second = blocks(PAGE, "python")
    (sql,) = blocks(PAGE, "sql")
    assert ADDRESS in first.text
    names: dict[str, Any] = {"__name__": "app"}
    exec(compile(first.text.replace(ADDRESS, database), "postgres.md", "exec", dont_inherit=True), names)
    exec(compile(second.text, "postgres.md", "exec", dont_inherit=True), names)
    app = names["app"]
    with app, psycopg.connect(database, autocommit=True) as shop:
        app.create_outbox(shop)
        shop.execute("CREATE TEMPORARY TABLE orders (id INTEGER)")
        names["buy"](shop, 8)
        shop.execute(sql.text.encode())
        assert shop.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(7,), (8,)]
        app.run_worker(burst=True, queues=["default"])
        assert app.counts("default")["ready"] == 0
        assert app.counts("shop")["ready"] == 1, "the example's own queue has no worker here"
