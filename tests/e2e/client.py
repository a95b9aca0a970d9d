"""The tests' own HTTP client: one keep-alive connection and the verbs of the job API.

``request`` returns whatever the server said. The verbs (``enqueue``, ``succeed``, ...) insist on the status
that the API promises, so that a test's lines are about what it tests.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from .stream import TakeStream
from .wire import TIMEOUT_S, Address, Headers, Response, Wire, WireError, request_bytes

JSON = "application/json"
MSGPACK = "application/msgpack"

ASK_AGAIN_S = 0.005
"""Between two questions: asked without a pause, a server has nothing else to do."""

Job = dict[str, Any]


def now_ms() -> int:
    """The wall clock, which the server under test shares, as epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Client:
    """A connection that is opened when needed and kept.

    Args:
        address: Host and port of the server.
        tls: What connections to it are encrypted with; None: with nothing.
    """

    def __init__(
        self, address: Address, *, timeout_s: float = TIMEOUT_S, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self.tls = tls
        self.timeout_s = timeout_s
        self._wire: Wire | None = None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def wire(self) -> Wire:
        """A new raw connection to the same server; the caller closes it."""
        return Wire(self.address, timeout_s=self.timeout_s, tls=self.tls)

    def request(
        self,
        method: str,
        target: str,
        *,
        data: Any = None,
        packed: Any = None,
        body: bytes | None = None,
        headers: Headers = (),
        accept: str | None = None,
    ) -> Response:
        """Send one request and return its final response.

        Args:
            method: HTTP method.
            target: Path and query, sent as given.
            data: Body to send as JSON.
            packed: Body to send as MessagePack.
            body: Body to send as it is, with no content type of its own.
            headers: Further headers.
            accept: ``Accept`` header; None sends none.
        """
        lines = list(headers)
        if accept is not None:
            lines.append(("accept", accept))
        if data is not None:
            body = json.dumps(data).encode()
            lines.append(("content-type", JSON))
        elif packed is not None:
            body = msgspec.msgpack.encode(packed)
            lines.append(("content-type", MSGPACK))
        if self._wire is None:
            self._wire = self.wire()
        try:
            self._wire.send(request_bytes(method, target, headers=lines, body=body))
            response = self._wire.read_response(head=method == "HEAD")
        except (OSError, WireError):
            self.close()
            raise
        if response.header("connection") == "close":
            self.close()
        return response

    def get(self, target: str, **options: Any) -> Response:
        """``GET``."""
        return self.request("GET", target, **options)

    def post(self, target: str, data: Any = None, **options: Any) -> Response:
        """``POST`` with a JSON body."""
        return self.request("POST", target, data=data, **options)

    def patch(self, target: str, data: Any = None, **options: Any) -> Response:
        """``PATCH`` with a JSON body."""
        return self.request("PATCH", target, data=data, **options)

    def put(self, target: str, data: Any = None, **options: Any) -> Response:
        """``PUT`` with a JSON body."""
        return self.request("PUT", target, data=data, **options)

    def delete(self, target: str, **options: Any) -> Response:
        """``DELETE``."""
        return self.request("DELETE", target, **options)

    def enqueue(self, queue: str, **fields: Any) -> Job:
        """Store one job and return its representation."""
        response = self.post("/jobs", {"type": "work", "queue": queue, "payload": None} | fields)
        assert response.status == 201, response.body
        return response.data

    def enqueue_many(self, queue: str, count: int, **fields: Any) -> list[str]:
        """Store ``count`` equal jobs in one call and return their ids in order."""
        job = {"type": "work", "queue": queue, "payload": None} | fields
        response = self.post("/jobs/bulk", {"jobs": [job] * count})
        assert response.status == 201, response.body
        return [job["id"] for job in response.data["jobs"]]

    def job(self, job_id: str) -> Job:
        """One job."""
        response = self.get(f"/jobs/{job_id}")
        assert response.status == 200, response.body
        return response.data

    def jobs(self, **filters: Any) -> list[Job]:
        """One page of the list."""
        response = self.get("/jobs?" + urlencode(filters))
        assert response.status == 200, response.body
        return response.data["jobs"]

    def count(self, **filters: Any) -> int:
        """The number of jobs that match."""
        response = self.get("/jobs/count?" + urlencode(filters))
        assert response.status == 200, response.body
        return response.data["count"]

    def succeed(self, *job_ids: str) -> None:
        """Acknowledge one job singly, several in one call."""
        if len(job_ids) == 1:
            response = self.request("POST", f"/jobs/{job_ids[0]}/success")
        else:
            response = self.post("/jobs/success", {"ids": list(job_ids)})
        assert response.status == 204, response.body

    def fail(self, job_id: str, **fields: Any) -> Job:
        """Report a failure and return the job after it."""
        response = self.post(f"/jobs/{job_id}/failure", {"message": "boom"} | fields)
        assert response.status == 200, response.body
        return response.data

    def errors(self, job_id: str) -> list[dict[str, Any]]:
        """The error records of a job."""
        response = self.get(f"/jobs/{job_id}/errors")
        assert response.status == 200, response.body
        return response.data["errors"]

    def take(self, queue: str | None = None, *, prefetch: int | None = None, **options: Any) -> TakeStream:
        """Open a take stream; use it as a context manager.

        Args:
            queue: Comma set of queues; None takes from all.
            prefetch: None leaves the server's default.
            options: ``accept`` and ``headers`` of the request.
        """
        query = {"queue": queue, "prefetch": prefetch}
        text = urlencode({name: value for name, value in query.items() if value is not None})
        return TakeStream(self.wire(), "/jobs/take" + ("?" + text if text else ""), **options)

    def run_one(self, queue: str, settle: Callable[[str], Any]) -> Any:
        """Take one job of a queue, settle it while the stream holds it, and return what ``settle`` gave."""
        with self.take(queue) as stream:
            return settle(stream.next_job()["id"])

    def eventually(self, check: Callable[[], Any], what: str) -> Any:
        """Ask until ``check`` gives something true, and return that; fail at the deadline."""
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            if found := check():
                return found
            time.sleep(ASK_AGAIN_S)
        raise TimeoutError(f"not so within {self.timeout_s} s: {what}")

    def when_status(self, job_id: str, status: str) -> Job:
        """The job as soon as it is in a status."""

        def check() -> Job | None:
            job = self.job(job_id)
            return job if job["status"] == status else None

        return self.eventually(check, f"job {job_id} is {status}")
