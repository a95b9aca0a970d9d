"""Both clients as their users write them: checked by type checkers, and not run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import assert_type

from anew.client import AsyncClient, AsyncPage, Client, Draft, Filters, JobView, Page


def blocking(client: Client) -> None:
    assert_type(client.enqueue("t", "q", 1, priority=2), JobView)
    assert_type(client.get("x"), JobView)
    assert_type(client.get(job_id="x"), JobView)
    assert_type(client.enqueue_many([Draft(type="t", queue="q")]), Sequence[JobView])
    assert_type(client.count(Filters(queue="q")), int)
    assert_type(client.success("x"), None)
    assert_type(client.success_many("x"), Sequence[str])
    assert_type(client.failure("x", "wrong", kill=True), JobView)
    assert_type(client.redrive(spread="1m"), int)
    assert_type(client.list(), Iterator[JobView])
    assert_type(client.page(limit=2).next(), Page | None)
    client.get()  # wrong: no id
    client.get(1)  # wrong: no text
    client.redrive(scatter="1m")  # wrong: no such parameter


async def awaited(client: AsyncClient) -> None:
    assert_type(await client.enqueue("t", "q", 1, priority=2), JobView)
    assert_type(await client.get("x"), JobView)
    assert_type(await client.count(Filters(queue="q")), int)
    assert_type(await client.success("x"), None)
    assert_type(await client.failure("x", "wrong", kill=True), JobView)
    assert_type(client.list(), AsyncIterator[JobView])
    assert_type(await (await client.page(limit=2)).next(), AsyncPage | None)
    _ = client.get("x").id  # wrong: not awaited
    await client.get(1)  # wrong: no text
    async with client.take("q") as stream:
        async for job in stream:
            assert_type(job, JobView)
