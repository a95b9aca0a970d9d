"""A real Redis, filled as Faktory 1.10 fills its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import redis

START_TIMEOUT_S = 30.0


class FaktoryRedis:
    """A ``redis-server`` in a folder of its own, which stands for Faktory's data directory.

    Attributes:
        directory: That folder; its path is short, since a socket's must be.
        url: Its address.
    """

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fk"))
        path = self.directory / "redis.sock"
        self.url = f"unix://{path}"
        words = ["--dir", str(self.directory), "--dbfilename", "faktory.rdb", "--port", "0", "--save", ""]
        self._process = subprocess.Popen(
            ["redis-server", *words, "--unixsocket", str(path)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "eady to accept connections" in line:
                break

    def client(self) -> Any:
        """One more connection to it."""
        return redis.Redis.from_url(self.url)

    def say(self, *words: Any) -> Any:
        """One command, on a connection of its own that is closed then: Faktory has stopped."""
        with self.client() as client:
            return client.execute_command(*words)

    def push(self, queue: str, *jobs: dict[str, Any] | bytes) -> None:
        """Add jobs to a queue's tail, which is the head of its list."""
        with self.client() as client:
            client.sadd("queues", queue)
            for job in jobs:
                client.lpush(f"q:{queue}", written(job))

    def put(self, place: str, score: float, job: dict[str, Any] | bytes) -> None:
        """Add a job to a set."""
        self.say("ZADD", place, repr(score), written(job))

    def calls(self) -> set[str]:
        """Every command that it has been sent since `forget_calls`."""
        lines = self.say("INFO", "commandstats")
        return {name.removeprefix("cmdstat_") for name in lines}

    def forget_calls(self) -> None:
        """Count commands from here on."""
        self.say("CONFIG", "RESETSTAT")

    def dump(self) -> dict[bytes, bytes]:
        """All that is in it."""
        with self.client() as client:
            return {key: client.dump(key) for key in client.scan_iter()}

    def save(self) -> None:
        """Write ``faktory.rdb`` and stop, as Faktory's does."""
        self.say("SAVE")
        self.stop()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """End it and remove its folder."""
        if self._process.poll() is None:
            self.stop()
        shutil.rmtree(self.directory)


def written(job: dict[str, Any] | bytes) -> bytes:
    """A job's JSON; bytes are as they are."""
    return job if isinstance(job, bytes) else json.dumps(job, separators=(",", ":")).encode()


def a_job(number: int, queue: str = "mail", **members: Any) -> dict[str, Any]:
    """A job as Faktory writes it."""
    whole = {
        "retry": 25,
        "jid": f"job-{number:06}",
        "queue": queue,
        "jobtype": "send",
        "created_at": "2026-01-01T08:00:00.123456789Z",
        "enqueued_at": f"2026-01-01T08:00:01.{number:06}Z",
        "args": [number],
    } | members
    return {name: value for name, value in whole.items() if value is not None}


def failed(retry_count: int, **members: Any) -> dict[str, Any]:
    """A failure as Faktory writes it."""
    return {
        "failed_at": "2026-01-01T09:00:00.5Z",
        "next_at": "2026-01-01T10:00:00.5Z",
        "message": "no answer",
        "errtype": "Timeout",
        "backtrace": ["a.rb:1"],
        "retry_count": retry_count,
        "remaining": 25 - retry_count,
    } | members
