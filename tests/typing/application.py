"""An application as its user writes it: checked by type checkers, and not run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import assert_type

from anew import Anew, Debounce, JobHandle, Limit, Merge, Policy, ctx

app = Anew("jobs.db")


@app.task
def add(a: int, b: int = 0) -> int:
    return a + b


@app.task(queue="mail", policy=["10s", "1m"], max_attempts=3, timeout="30s")
async def send(to: str) -> bytes:
    return to.encode()


@app.task(
    policy=Policy.from_json("even"), unique="{day}", limit=Limit("{day}", concurrency=2, rate="10/m", burst=3)
)
def report(day: str) -> None:
    assert_type(ctx.attempt, int)


@app.task(debounce=Debounce("10s", key="page {page}", max_wait="1m"))
def save(page: int) -> None: ...


@app.task(debounce=10, merge={"ids": "append"})
def notify(ids: list[int]) -> None: ...


assert_type(add(1, b=2), int)
assert_type(add.enqueue(1), JobHandle[int])
assert_type(add.enqueue(1).result(), int)
assert_type(add.using(delay=60).enqueue(1, b=2), JobHandle[int])
assert_type(add.enqueue_many([(1, 2)]), list[JobHandle[int]])
assert_type(send("ada"), Awaitable[bytes])
assert_type(send.enqueue("ada"), JobHandle[bytes])
assert_type(report.enqueue("monday").result(), None)
assert_type(save.enqueue(1).folded, bool)
assert_type(notify.using(merge=Merge("$new", key="k")).enqueue([1]), JobHandle[None])


async def later() -> None:
    assert_type(await send.aenqueue("ada"), JobHandle[bytes])
    assert_type(await send("ada"), bytes)


add.enqueue("one")  # wrong: str
add.enqueue()  # wrong: a is missing
add.enqueue(1, c=2)  # wrong: no such parameter
send.using(delay=1).enqueue(7)  # wrong: int
