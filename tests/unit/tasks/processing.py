"""An application whose tasks run in processes of their own, which import this module."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

from anew import Anew, Snooze, ctx
from anew.errors import AnewError

app = Anew(":memory:")


@app.task(process=True, keep_result="1h")
def where() -> int:
    """Say in which process it runs."""
    return os.getpid()


@app.task(process=True)
def vanish(notes: str) -> None:
    """End its process."""
    with Path(notes).open("a") as file:
        file.write(f"{os.getpid()}\n")
    os._exit(3)


@app.task(process=True)
def signalled() -> None:
    """End its process by a signal, and leave no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


@app.task(process=True, timeout=0.05, policy={TimeoutError: None})
def hang(notes: str) -> None:
    """Never end."""
    Path(notes).write_text(str(os.getpid()))
    threading.Event().wait()


@app.task(process=True, policy={LookupError: None, Exception: ["1h"]})
def fail(kind: str) -> None:
    """Raise what is asked for."""
    raise {"key": KeyError, "value": ValueError}[kind](kind)


@app.task(process=True, keep_result="1h")
def end_program() -> int:
    """Start a program and ask it to end; give its exit code."""
    program = subprocess.Popen(["sleep", "60"])
    try:
        program.terminate()
        return program.wait(10)
    finally:
        program.kill()


@app.task(process=True)
def later() -> None:
    """Ask to run later."""
    raise Snooze("1d", reason=f"attempt {ctx.attempt}")


@app.task(process=True, keep_result="1h")
def fork_apart(code: int) -> int:
    """Fork a child that comes back from here too; give its exit code."""
    return fork(code)


@app.task(keep_result="1h")
def fork_here(code: int) -> int:
    """Do the same in a thread of the worker."""
    return fork(code)


@app.task(keep_result="1h")
async def fork_in_loop(code: int) -> int:
    """Do the same in its event loop."""
    return fork(code)


def fork(code: int) -> int:
    """Fork; the child comes back or, with a code, raises SystemExit."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        sys.exit(code)
    return -1


@app.task(process=True, keep_result="1h")
def batch_total() -> int:
    """Ask for the batch; -1: there is none."""
    return -1 if ctx.batch is None else ctx.batch.total


@app.task(process=True, keep_result="1h")
def say_progress(percent: int | float) -> str:
    """Say how far it has come; give what comes of that."""
    try:
        ctx.progress(percent)  # type: ignore[arg-type]
    except AnewError as error:
        return str(error)
    return "heard"


@app.task(keep_result="1h")
def here() -> int:
    """Say in which process a plain task runs."""
    return os.getpid()


@app.task(keep_result="1h")
async def in_loop() -> int:
    """Say in which process an async task runs."""
    return os.getpid()


@app.task(process=True)
def stay(pipe: str) -> None:
    """Tell its process's number, and never end."""
    Path(pipe).write_text(str(os.getpid()))
    threading.Event().wait()
