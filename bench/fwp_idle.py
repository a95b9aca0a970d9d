"""What connections of the Faktory Work Protocol cost that do little: idle ones, waiting FETCHes, floods of short ones.

    python -m bench.fwp_idle                                   # all of it, against a server of its own
    python -m bench.fwp_idle --idle 1000 --waiting 200 --tries 50 --flood 1000

Memory and CPU are the server's, from /proc; times are this program's, which shares the machine with the server.
"""

import argparse
import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from bench.__main__ import WORK_DIR
from bench.figures import latencies
from bench.servers import OURS, Server, settle

WATCHED_S = 10.0
AT_ONCE = 50
"""Short connections that are open at one time."""

_HELLO = b'HELLO {"v":2}\r\n'
_NULL = b"$-1\r\n"


class Client:
    """One connection; replies are read one at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Client":
        """Connect and say HELLO.

        Raises:
            ConnectionError: The server said something else than OK, or hung up.
        """
        made = cls(*await asyncio.open_connection("127.0.0.1", port))
        if await made._line() and await made.ask(_HELLO) != b"+OK\r\n":
            raise ConnectionRefusedError
        return made

    async def ask(self, line: bytes) -> bytes:
        """Send a line; give the reply, of a bulk its text."""
        self._writer.write(line)
        said = await self._line()
        if said[:1] != b"$" or said == _NULL:
            return said
        return await self._reader.readexactly(int(said[1:]) + 2)

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line:
            raise ConnectionResetError
        return line

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


async def idle(server: Server, connections: int) -> dict[str, float]:
    """Measure the memory of connections that have said HELLO and nothing else."""
    before = server.usage().rss_mb
    opened = await _open(server, connections)
    after = server.usage().rss_mb
    _close(opened)
    return {"rss_before_mb": before, "rss_after_mb": after, "kb_each": (after - before) * 1024 / connections}


async def waiting(server: Server, clients: int) -> dict[str, float]:
    """Measure the CPU that waiting FETCHes take: each is answered with nothing after 2 s, and sent again."""
    without_s = await _watched(server)
    opened = await _open(server, clients)
    fetches = 0

    async def fetch(client: Client, number: int) -> None:
        nonlocal fetches
        while True:
            await client.ask(b"FETCH empty-%d\r\n" % (number % 10))
            fetches += 1

    tasks = [asyncio.create_task(fetch(client, at)) for at, client in enumerate(opened)]
    await asyncio.sleep(3)
    fetches = 0
    used_s = await _watched(server)
    await _cancel(tasks)
    _close(opened)
    return {"cpu_s_without": without_s, "cpu_s": used_s, "fetches": fetches, "seconds": WATCHED_S}


async def wake(server: Server, tries: int, others: int) -> dict[str, float]:
    """Measure the time from a PUSH to the end of a FETCH that waits for it, while so many others wait in vain.

    The PUSH itself waits for the disk; `push_` figures are the time to its own answer.
    """
    worker, producer, *rest = await _open(server, 2 + others)
    crowd = [asyncio.create_task(_wait_for_ever(client)) for client in rest]
    samples: list[int] = []
    answered: list[int] = []
    for number in range(tries):
        fetch = asyncio.create_task(worker.ask(b"FETCH woken\r\n"))
        await asyncio.sleep(0.01)  # it waits
        begun = time.perf_counter_ns()
        await producer.ask(b'PUSH {"jid":"woken-%06d","jobtype":"t","queue":"woken","args":[]}\r\n' % number)
        answered.append(time.perf_counter_ns() - begun)
        assert (await fetch)[:1] == b"{"
        samples.append(time.perf_counter_ns() - begun)
        await worker.ask(b'ACK {"jid":"woken-%06d"}\r\n' % number)
    await _cancel(crowd)
    _close([worker, producer, *rest])
    return {**latencies(samples), **{f"push_{name}": value for name, value in latencies(answered).items()}}


async def flood(server: Server, connections: int) -> dict[str, float]:
    """Measure one client's cycles of PUSH, FETCH and ACK alone, and beside very many connections that come, say HELLO and go."""
    client = await Client.open(server.port_of("fwp"))
    alone = [await _cycle(client, number) for number in range(500)]
    beside: list[int] = []
    other = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.fwp_idle", "--come-and-go", f"{server.port_of('fwp')},{connections}"),
        stdout=asyncio.subprocess.PIPE,
    )
    ended = asyncio.create_task(other.communicate())
    while not ended.done():
        beside.append(await _cycle(client, 1_000 + len(beside)))
    figures = json.loads((await ended)[0])
    client.close()
    return {
        **{f"alone_{name}": value for name, value in latencies(alone).items()},
        **{f"beside_{name}": value for name, value in latencies(beside).items()},
        "cycles_beside": len(beside),
        **figures,
    }


async def come_and_go(port: int, connections: int) -> dict[str, float]:
    """Open so many connections, some at a time, say HELLO on each and close it; in a process of its own."""
    begun, left, refused = time.perf_counter(), connections, 0

    async def short() -> None:
        nonlocal left, refused
        while left > 0:
            left -= 1
            try:
                (await Client.open(port)).close()
            except OSError:
                refused += 1

    await asyncio.gather(*(short() for _ in range(AT_ONCE)))
    return {"connections_per_s": connections / (time.perf_counter() - begun), "refused": refused}


async def _cycle(client: Client, number: int) -> int:
    begun = time.perf_counter_ns()
    await client.ask(b'PUSH {"jid":"cycled-%06d","jobtype":"t","queue":"cycled","args":[]}\r\n' % number)
    assert (await client.ask(b"FETCH cycled\r\n"))[:1] == b"{"
    await client.ask(b'ACK {"jid":"cycled-%06d"}\r\n' % number)
    return time.perf_counter_ns() - begun


async def _open(server: Server, count: int) -> list[Client]:
    port, opened = server.port_of("fwp"), []
    for _ in range(0, count, AT_ONCE):
        opened += await asyncio.gather(*(Client.open(port) for _ in range(min(AT_ONCE, count - len(opened)))))
    return opened


def _close(clients: list[Client]) -> None:
    for client in clients:
        client.close()


async def _watched(server: Server) -> float:
    before = server.usage().cpu_s
    await asyncio.sleep(WATCHED_S)
    return server.usage().cpu_s - before


async def _wait_for_ever(client: Client) -> None:
    while True:
        await client.ask(b"FETCH never\r\n")


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def measured(server: Server, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measure everything, one after the other."""
    found = {}
    if args.idle:
        found[f"{args.idle} idle connections"] = await idle(server, args.idle)
        settle([server])
    if args.waiting:
        found[f"{args.waiting} waiting FETCHes"] = await waiting(server, args.waiting)
    if args.tries:
        found[f"wake, {args.tries} times"] = await wake(server, args.tries, 0)
        found[f"wake, {args.tries} times, {args.waiting} others wait"] = await wake(
            server, args.tries, args.waiting
        )
    if args.flood:
        found[f"{args.flood} short connections"] = await flood(server, args.flood)
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.fwp_idle", description=__doc__.partition("\n")[0])
    parser.add_argument("--idle", type=int, default=5_000, help="idle connections")
    parser.add_argument("--waiting", type=int, default=1_000, help="FETCHes that wait")
    parser.add_argument("--tries", type=int, default=200, help="PUSHes that wake one")
    parser.add_argument("--flood", type=int, default=10_000, help="short connections")
    parser.add_argument(
        "--work-dir", type=Path, default=WORK_DIR, help="where the server's data go; a real disk"
    )
    parser.add_argument("--come-and-go", metavar="PORT,N", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.come_and_go:
        print(json.dumps(asyncio.run(come_and_go(*map(int, args.come_and_go.split(","))))))
        return 0
    server = Server("anew", OURS, args.work_dir / f"fwp-idle-{time.monotonic_ns()}")
    try:
        found = asyncio.run(measured(server, args))
    finally:
        server.stop()
    for name, figures in found.items():
        print(f"{name}: {json.dumps({key: round(value, 3) for key, value in figures.items()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
