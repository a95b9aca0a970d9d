"""A process that runs handlers for a worker, one after the other: ``python -m anew.tasks.child FD``.

It ends when its worker does: a thread of it waits for the end of the socket that only the worker holds.
"""

from __future__ import annotations

import importlib
import os
import queue
import resource
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from anew.clock import SystemClock
from anew.errors import Unavailable
from anew.jobs import Cancelled, Failed, Outcome, Snoozed
from anew.tasks.backend import BatchCounts


class Request(msgspec.Struct):
    """A job for a child.

    Attributes:
        path: Where to look for modules.
        place: What to import: a module's name, or a script's path.
        name: The task's.
        first: A module to import before that; "": none.
        carried: See `anew.tasks.around.Running`.
        retention: See `anew.tasks.running.Run`.
    """

    path: list[str]
    place: str
    name: str
    job_id: str
    queue: str
    payload: bytes
    attempts: int
    max_attempts: int | None
    carried: dict[str, str] = {}
    first: str = ""
    retention: bytes | None = None


class Reply(msgspec.Struct):
    """What a child says: that the handler begins, a word about progress, a question about its batch, or the end of its job.

    Attributes:
        progress: `BEGUN`; or how far the job has come, for which an `Answer` is awaited.
        asks_batch: The handler asks how far its batch has come: an `Answer` is awaited.
        result: What the handler returned, as JSON, where that is kept.
        kib: The most memory that the child has used.
    """

    progress: tuple[int | None, str | None] | None = None
    asks_batch: bool = False
    failed: Failed | None = None
    snoozed: Snoozed | None = None
    cancelled: Cancelled | None = None
    result: bytes | None = None
    kib: int = 0

    def outcome(self) -> Outcome | None:
        """Give the outcome; None: it went well."""
        return self.failed or self.snoozed or self.cancelled


class Answer(msgspec.Struct):
    """What a child is told: that its progress is written, or of its job's batch.

    Attributes:
        error: Why it is not, or cannot be told.
    """

    counts: BatchCounts | None = None
    error: str | None = None


BEGUN: Final = (None, None)
"""The word of progress with which a child says that the handler begins."""

encode: Final = msgspec.msgpack.Encoder().encode
read_request: Final = msgspec.msgpack.Decoder(Request).decode
read_answer: Final = msgspec.msgpack.Decoder(Answer).decode
read_reply: Final = msgspec.msgpack.Decoder(Reply).decode


def place_of(function: Callable[..., Any]) -> str:
    """Give where a child finds a function's task: its module's name, or the script's path."""
    module = getattr(function, "__module__", "")
    if module != "__main__":
        return str(module)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return str(spec.name if spec is not None else os.path.abspath(getattr(main, "__file__", "")))


def main() -> None:
    """Run jobs until the worker is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # For the worker, which decides what becomes of its children. Not SIG_IGN: programs that a handler starts would inherit it.
        signal.signal(number, lambda *_: None)
    connection = Connection(int(sys.argv[1]))
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, requests), daemon=True).start()
    while True:
        request = read_request(requests.get())
        connection.send_bytes(encode(_run(connection, request, requests.get)))


def _listen(connection: Connection, requests: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            requests.put(connection.recv_bytes())
    except (OSError, EOFError):
        os._exit(0)  # the worker is gone, and its job is somebody else's now


def _run(connection: Connection, request: Request, receive: Callable[[], bytes]) -> Reply:
    from anew.tasks.running import Run, Runner, failed_with

    asking = threading.Lock()

    def ask(question: Reply) -> Answer:
        with asking:  # one at a time: nothing else comes while a job runs
            connection.send_bytes(encode(question))
            answer = read_answer(receive())
        if answer.error is not None:
            raise Unavailable(answer.error)
        return answer

    def progress(job_id: str, percent: int | None, text: str | None) -> None:
        if (percent, text) != BEGUN:
            ask(Reply(progress=(percent, text)))

    def batch_of(job_id: str) -> BatchCounts | None:
        return ask(Reply(asks_batch=True)).counts

    try:
        task = _find(request)
    except BaseException as error:  # its module cannot be imported: that is the job's failure
        return Reply(failed=failed_with(error), kib=_kib())
    run = Run(
        key=0,
        token=0,
        job_id=request.job_id,
        name=request.name,
        queue=request.queue,
        payload=request.payload,
        attempts=request.attempts,
        max_attempts=request.max_attempts,
        task=task,
        carried=request.carried,
        retention=request.retention,
    )
    connection.send_bytes(encode(Reply(progress=BEGUN)))
    Runner(SystemClock().now, progress, batch_of, in_child=True).call(run)
    reply = Reply(result=run.result, kib=_kib())
    match run.outcome:
        case Failed():
            reply.failed = run.outcome
        case Snoozed():
            reply.snoozed = run.outcome
        case Cancelled():
            reply.cancelled = run.outcome
    return reply


_loaded: set[str] = set()


def _find(request: Request) -> Any:
    """Give the task of a request, importing where it stands; None if it is not there."""
    from anew.tasks import app

    if request.place not in _loaded:
        sys.path[:] = request.path
        app.importing = True  # a script that is not guarded by `if __name__ == "__main__"` would enqueue, or work, once more
        try:
            if request.first:
                importlib.import_module(request.first)
            if os.path.isabs(request.place):
                _scripts.append(runpy.run_path(request.place, run_name="__anew__"))
            else:
                importlib.import_module(request.place)
        finally:
            app.importing = False
        _loaded.add(request.place)
    return next((one.tasks[request.name] for one in app.apps() if request.name in one.tasks), None)


_scripts: list[dict[str, Any]] = []
"""What scripts have defined, so that it stays."""


def _kib() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 1_024 if sys.platform == "darwin" else most


if __name__ == "__main__":
    main()
