"""The application behind the seam: who may come in, which route it is, what goes wrong."""

from __future__ import annotations

import binascii
import hmac
import logging
import time
from dataclasses import dataclass
from typing import Protocol

from anew.engine import Engine, GroupCommit
from anew.engine.reads import Reads
from anew.errors import AnewError, MalformedRequest, NotFound, Overloaded
from anew.http.chunks import Chunks
from anew.http.formats import JSON, SUPPORTED, answer_format, not_acceptable
from anew.http.replies import reply_error
from anew.http.router import Router
from anew.net.seam import Request, WireCounters

log = logging.getLogger("anew.http")

LOOPBACK_NAMES = frozenset({b"localhost", b"127.0.0.1", b"[::1]", b"::1"})
OPEN_PATHS = frozenset({b"/healthz", b"/readyz"})
"""Probes answer without a token; they say nothing but yes or no."""
PAGES = b"/lab"
"""Pages for browsers, at this path and below. They may bring the token as the password of HTTP Basic, since nobody can
teach a browser another header. Only here: a browser adds a password to whatever a stranger's page makes it send, and what
is below this path changes nothing."""
_BASIC_REALM = b'Basic realm="Anew: any name, the token as password", charset="UTF-8"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """What the routes need to know.

    Attributes:
        token: The bearer token that every request must carry; None asks for none.
        allowed_hosts: Names that ``Host`` may carry beside the loopback ones; lower case, without port.
        heartbeat_ms: Silence on a take stream before a heartbeat.
        max_job_bytes: Bytes of one job's payload.
        max_bulk: Jobs in one bulk request, ids in one bulk success.
        max_streams: Open take streams.
        max_stream_jobs: Most unsettled jobs one stream may hold, whatever its prefetch.
        max_unsent: Bytes of answers that peers may leave unread, over all connections; above it no long one is rendered.
        version: What ``/version`` says.
        commit: ``full`` or ``relaxed``, named in ``/health``.
    """

    token: str | None = None
    allowed_hosts: frozenset[bytes] = frozenset()
    heartbeat_ms: int = 3_000
    max_job_bytes: int = 32 << 20
    max_bulk: int = 10_000
    max_streams: int = 2_000
    max_stream_jobs: int = 1_000
    max_unsent: int = 256 << 20
    version: str = "0.6.1"
    commit: str = "full"


class Edge(Protocol):
    """What a server has whether or not there is a store behind it."""

    @property
    def settings(self) -> ApiSettings:
        """What the routes need to know."""

    @property
    def counters(self) -> WireCounters:
        """What the wires count; refusals are counted here too."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The edge of a server without a store."""

    settings: ApiSettings
    counters: WireCounters


class Context:
    """What every handler may use.

    Args:
        engine: The engine: its ids, its clock, what it counts.
        commit: Where operations go.
        reads: What is read of the store.
        settings: What the routes need to know.
        counters: What the wires count; refusals are counted here too.
    """

    __slots__ = ("chunks", "commit", "counters", "engine", "reads", "settings", "started_at")

    def __init__(
        self,
        engine: Engine,
        commit: GroupCommit,
        reads: Reads,
        settings: ApiSettings,
        counters: WireCounters,
    ) -> None:
        self.engine = engine
        self.commit = commit
        self.reads = reads
        self.settings = settings
        self.counters = counters
        self.chunks = Chunks()
        self.started_at = time.monotonic()

    def key_of(self, job_id: str) -> int:
        """Give the key of a job's public id.

        Raises:
            NotFound: It is no id of this store.
        """
        key = self.engine.ids.read(job_id)
        if key < 0:
            raise NotFound("job not found")
        return key


class Api:
    """Answers requests: the callable that the wires hand them to.

    Args:
        edge: Settings and counters; handlers have what else they use from elsewhere.
        router: All routes.
    """

    def __init__(self, edge: Edge, router: Router) -> None:
        settings = edge.settings
        self._counters = edge.counters
        self._find = router.find
        self._literal = router.literal
        self._token = None if settings.token is None else settings.token.encode()
        self._bearer = None if self._token is None else b"Bearer " + self._token
        self._served = LOOPBACK_NAMES | settings.allowed_hosts
        self._hosts: set[bytes] = set()

    def __call__(self, request: Request) -> None:
        """Answer one request, now or later."""
        host = request.headers.get(b"host", b"")
        if host not in self._hosts and not self._admit_host(host):
            self._refuse(
                request, 403, "host", "this server does not serve that host name; see --allowed-hosts"
            )
            return
        if self._bearer is not None and not self._authorised(request):
            self._refuse(request, 401, "token", "a bearer token is required: Authorization: Bearer <token>")
            return
        try:
            self._route(request)
        except AnewError as error:
            if isinstance(error, Overloaded):
                self._counters.refuse(error.code)
            reply_error(request, answer_format(request.headers) or JSON, error)
        except Exception:
            log.exception("a request failed", extra={"method": request.method.decode("latin-1")})
            JSON.error(request, 500, "internal server error")

    def _route(self, request: Request) -> None:
        route = self._literal.get(request.path)
        params: tuple[str, ...] = ()
        if route is None:
            try:
                route, params = self._find(request.path)
            except MalformedRequest as error:
                JSON.error(request, 400, str(error))
                return
            if route is None:
                self._not_found(request)
                return
        handler = route.handlers.get(request.method)
        if handler is None:
            wanted = answer_format(request.headers) or JSON
            wanted.error(request, 405, "method not allowed", ((b"allow", route.allow),))
            return
        form = answer_format(request.headers)
        if form is None:
            if not route.streams:
                not_acceptable(request, SUPPORTED)
                return
            form = JSON
        handler(request, form, params)

    def _not_found(self, request: Request) -> None:
        form = answer_format(request.headers)
        if form is None:
            not_acceptable(request, SUPPORTED)
        else:
            form.error(request, 404, "not found")

    def _refuse(self, request: Request, status: int, reason: str, message: str) -> None:
        self._counters.refuse(reason)
        scheme = _BASIC_REALM if _is_page(request.path) else b"Bearer"
        JSON.error(request, status, message, ((b"www-authenticate", scheme),) if status == 401 else ())

    def _authorised(self, request: Request) -> bool:
        assert self._bearer is not None
        assert self._token is not None
        given = request.headers.get(b"authorization", b"")
        if hmac.compare_digest(given, self._bearer) or request.path in OPEN_PATHS:
            return True
        return _is_page(request.path) and hmac.compare_digest(_password(given), self._token)

    def _admit_host(self, host: bytes) -> bool:
        """Check a host name once; the verdict on good ones is remembered, a bounded number of them."""
        good = host_name(host) in self._served
        if good and len(self._hosts) < 256:
            self._hosts.add(host)
        return good


def _is_page(path: bytes) -> bool:
    return path == PAGES or path.startswith(PAGES + b"/")


def _password(authorization: bytes) -> bytes:
    """Give the password of HTTP Basic; empty if there is none."""
    scheme, _, given = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return binascii.a2b_base64(given.strip()).partition(b":")[2]
    except binascii.Error:
        return b""


def host_name(host: bytes) -> bytes:
    """Give the name in a ``Host`` value: lower case, without port and final dot."""
    name = host.strip().lower()
    if name.startswith(b"["):
        end = name.find(b"]")
        return name[: end + 1] if end > 0 else b""
    return name.partition(b":")[0].rstrip(b".")
