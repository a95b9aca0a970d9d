"""The application behind the seam: who may come in, which route it is, what goes wrong."""

from __future__ import annotations

import binascii
import hmac
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from anew.engine import Engine, GroupCommit
from anew.engine.reads import Reads
from anew.engine.searches import Searches
from anew.engine.workers import Workers
from anew.errors import AnewError, InternalError, MalformedRequest, NotFound, Overloaded
from anew.http.fold_checks import FoldChecks
from anew.http.formats import (
    JSON,
    SUPPORTED,
    Format,
    UnsupportedMediaType,
    answer_format,
    not_acceptable,
    unsupported_media_type,
)
from anew.http.origins import LOOKS, Origins, SharedRequest, is_page
from anew.http.replies import reply_error
from anew.http.roles import listed
from anew.http.router import Found, Router, too_large
from anew.http.tokens import Tokens
from anew.net.chunks import Chunks
from anew.net.head import stated_length
from anew.net.seam import Headers, Kind, Refusal, Request, WireCounters, codes

log = logging.getLogger("anew.http")

LOOPBACK_NAMES = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
OPEN_PATHS = frozenset({b"/healthz", b"/readyz"})
"""Probes answer without a token; they say nothing but yes or no."""

CONFIRMING = b"/v1/confirm/"
"""So do confirmations of subscriptions: the path's last part is a token of its own, good for one subscription, once."""

_MISSING = "a bearer token is required: Authorization: Bearer <token>"
_WRONG = "the bearer token is wrong: this server does not know it"
_BASIC_REALM = b'Basic realm="Anew: any name, the token as password", charset="UTF-8"'
"""Asked for by pages. They may bring the token as the password of HTTP Basic, since nobody can teach a browser another header.
Pages only, as a browser adds a password to whatever another site's page makes it send: what a page's form sends counts only where
the browser says that it comes from a page of ours."""


_SHED = Overloaded("too many requests are waiting to be answered soon; try again in a second")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """What the routes need to know.

    Attributes:
        token: The bearer token that every request must carry; None asks for none.
        tokens: All tokens, `token` among them, where there is a file of them: every request must carry one, with a role that its
            route takes.
        allowed_origins: Origins of other sites whose pages may use the API, as browsers write them.
        allowed_hosts: Names that ``Host`` may carry beside the loopback ones; lower case, without port. None serves any.
        secure: Clients speak TLS with this server.
        heartbeat_ms: Silence on a take stream before a heartbeat.
        max_job_bytes: Bytes of one job's payload.
        max_bulk: Jobs in one bulk request, ids in one bulk success.
        max_streams: Open take streams.
        max_stream_jobs: Most unsettled jobs one stream may hold, whatever its prefetch.
        version: What ``/version`` says.
        commit: ``full`` or ``relaxed``, named in ``/health``.
    """

    token: str | None = None
    tokens: Tokens | None = None
    allowed_hosts: frozenset[bytes] | None = frozenset()
    secure: bool = False
    allowed_origins: frozenset[bytes] = frozenset()
    heartbeat_ms: int = 3_000
    max_job_bytes: int = 32 << 20
    max_bulk: int = 10_000
    max_streams: int = 2_000
    max_stream_jobs: int = 1_000
    version: str = "0.6.1"
    commit: str = "full"


@dataclass(frozen=True, slots=True)
class Context:
    """What every handler may use.

    Attributes:
        engine: The engine: its ids, its clock, what it counts.
        commit: Where operations go.
        reads: What is read of the store.
        searches: What is found by payloads.
        settings: What the routes need to know.
        counters: What the wires count; refusals are counted here too.
        fold_checks: What tries the expressions of new jobs that may be folded.
        workers: Who is connected to work.
        certificate_ends: Gives when the certificates of the listeners end, by the listener's name, epoch ms.
        chunks: Where long works are done.
        started_at: When it was made, by the monotonic clock, in seconds.
    """

    engine: Engine
    commit: GroupCommit
    reads: Reads
    searches: Searches
    settings: ApiSettings
    counters: WireCounters
    fold_checks: FoldChecks
    workers: Workers = field(default_factory=Workers)
    certificate_ends: Callable[[], Mapping[str, int]] = dict
    chunks: Chunks = field(default_factory=Chunks)
    started_at: float = field(default_factory=time.monotonic)

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
    """Answers requests: what the wires ask about each head, and then hand the whole request to.

    Args:
        settings: Who may come in.
        counters: What the wires count; refusals are counted here too.
        router: All routes.
        forbidden: Words a refusal as a page, by the request's headers and a sentence, where there are pages.
    """

    def __init__(
        self,
        settings: ApiSettings,
        counters: WireCounters,
        router: Router,
        forbidden: Callable[[Mapping[bytes, bytes], str], Refusal] | None = None,
    ) -> None:
        self._counters = counters
        self._router = router
        self._literal = router.literal
        self._found: tuple[bytes, Found] = (b"", (None, ()))  # by the path that was looked for last
        self._token = None if settings.token is None else settings.token.encode()
        self._bearer = None if self._token is None else b"Bearer " + self._token
        self._tokens = settings.tokens
        self._forbidden = forbidden
        # Where nothing is asked for, nothing is called: every request comes by here.
        self._check: _Check | None = None
        if settings.tokens is not None or settings.token is not None:
            self._check = self._check_token if settings.tokens is None else self._check_roles
        self._served = None if settings.allowed_hosts is None else LOOPBACK_NAMES | settings.allowed_hosts
        self._hosts: set[bytes] = set()
        self._origins = Origins(settings.allowed_origins, secure=settings.secure)

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Refuse by the head alone: a host that is not served, another site's page, a missing or wrong token, no such route."""
        host = headers.get(b"host")  # only HTTP/1.0, which no browser speaks, may come without one
        if host is not None and host not in self._hosts and not self._admit_host(host):
            message = "this server does not serve that host name; see --allowed-hosts"
            return _refused(JSON, 403, message, reason="host")
        shared: Headers = ()
        if b"origin" in headers or b"sec-fetch-site" in headers:
            preflight = self._origins.preflight_headers(method, headers)
            if preflight:
                return Refusal(204, b"", None, preflight)
            if self._origins.is_cross_site(method, path, headers):
                message = "pages of other sites may not use this server; see --allow-origin"
                return _refused(JSON, 403, message, reason="cross_site", code="cross_site")
            shared = self._origins.answer_headers(headers)
        if self._check is not None:
            refused = self._check(method, path, headers, shared)
            if refused is not None:
                return refused
        route = self._literal.get(path)
        if route is not None and method in route.unbounded:
            return None
        return self._judge_route(method, path, headers, shared)

    def __call__(self, request: Request) -> None:
        """Answer a request that `judge` has not refused, now or later."""
        if b"origin" in request.headers:
            shared = self._origins.answer_headers(request.headers)
            if shared:
                request = SharedRequest(request, shared)
        try:
            params: tuple[str, ...] = ()
            route = self._literal.get(request.path)
            if route is None:
                route, params = self._find(request.path)
                assert route is not None  # `judge` has seen to it
            form = answer_format(request.headers)
            if form is None:
                if not route.streams:
                    request.reply(406, not_acceptable(SUPPORTED))
                    return
                form = JSON
            route.handlers[request.method](request, form, params)
        except AnewError as error:
            if isinstance(error, Overloaded):
                self._counters.refuse(error.code)
            reply_error(request, answer_format(request.headers) or JSON, error)
        except UnsupportedMediaType:
            unsupported_media_type(request)
        except Exception:
            log.exception("a request failed", extra={"method": request.method.decode("latin-1")})
            reply_error(request, JSON, InternalError("a request failed"))

    def kind_of(self, request: Request) -> Kind:
        """Say what a request is for."""
        route, _ = self._find(request.path)
        return Kind.other if route is None else route.kinds.get(request.method, Kind.other)

    def shed(self, request: Request) -> None:
        """Refuse a request before its body is looked at: that must cost less than serving it, or a crowd would wait for longer."""
        self._counters.refuse(_SHED.code)
        reply_error(request, answer_format(request.headers) or JSON, _SHED)

    def _find(self, path: bytes) -> Found:
        """Find a route; the same path is asked for twice, by `judge` and by the request itself."""
        route = self._literal.get(path)
        if route is not None:
            return route, ()
        if path is not self._found[0]:
            self._found = path, self._router.find(path)
        return self._found[1]

    def _judge_route(
        self, method: bytes, path: bytes, headers: Mapping[bytes, bytes], shared: Headers
    ) -> Refusal | None:
        """Refuse a path that does not exist, a method that it does not have, or a body above its bound."""
        try:
            route, _ = self._find(path)
        except MalformedRequest as error:
            return _refused(JSON, 400, str(error), shared)
        form = answer_format(headers)
        if route is None and form is None:
            return Refusal(406, not_acceptable(SUPPORTED), extra=shared)
        if route is None:
            return _refused(form or JSON, 404, "not found", shared)
        if method not in route.handlers:
            return _refused(form or JSON, 405, "method not allowed", ((b"allow", route.allow), *shared))
        most = route.most.get(method)
        if most is not None and stated_length(headers.get(b"content-length", b"0")) > most:
            return _refused(form or JSON, 413, str(too_large(most)), shared, reason="body_size")
        return None

    def _check_token(
        self, method: bytes, path: bytes, headers: Mapping[bytes, bytes], shared: Headers
    ) -> Refusal | None:
        """Refuse who does not bring the one token."""
        assert self._bearer is not None
        assert self._token is not None
        given = headers.get(b"authorization", b"")
        if hmac.compare_digest(given, self._bearer) or _is_open(path):
            return None
        if _may_bring_password(method, path, headers) and hmac.compare_digest(
            password_of(given), self._token
        ):
            return None
        return _unauthorised(path, given, shared)

    def _check_roles(
        self, method: bytes, path: bytes, headers: Mapping[bytes, bytes], shared: Headers
    ) -> Refusal | None:
        """Refuse who brings no token of the file, or one without a role that the route takes."""
        assert self._tokens is not None
        given = headers.get(b"authorization", b"")
        token = self._tokens.bearer(given)
        if token is None and _may_bring_password(method, path, headers):
            token = self._tokens.find(password_of(given))
        if token is None:
            return None if _is_open(path) else _unauthorised(path, given, shared)
        try:
            route, _ = self._find(path)
        except MalformedRequest:
            return None  # `_judge_route` says so
        if route is None or method not in route.roles or not token.roles.isdisjoint(route.roles[method]):
            return None
        needs, has = listed(route.roles[method], " or "), listed(token.roles, " and ")
        said = f"needs the role {needs}; this token ({token.name}) has {has}"
        if self._forbidden is not None and is_page(path):
            return self._forbidden(headers, f"This {said}.")
        message = f"{method.decode()} {route.template} {said}"
        return _refused(answer_format(headers) or JSON, 403, message, shared, reason="role")

    def _admit_host(self, host: bytes) -> bool:
        """Check a host name once; the verdict on good ones is remembered, a bounded number of them."""
        name = host_name(host)
        good = bool(name) if self._served is None else name in self._served
        if good and len(self._hosts) < 256:
            self._hosts.add(host)
        return good


_Check = Callable[[bytes, bytes, Mapping[bytes, bytes], Headers], Refusal | None]
"""Looks who sends a request, by its method, path and headers; what is refused gets these further headers."""


def _is_open(path: bytes) -> bool:
    return path in OPEN_PATHS or path.startswith(CONFIRMING)


def _may_bring_password(method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a token may come as a password; where a browser names an origin, `judge` has seen that it is ours."""
    return is_page(path) and (method in LOOKS or b"origin" in headers or b"sec-fetch-site" in headers)


def _unauthorised(path: bytes, given: bytes, shared: Headers) -> Refusal:
    scheme = _BASIC_REALM if is_page(path) else b"Bearer"
    message = _WRONG if given.lower().startswith(b"bearer ") else _MISSING
    return _refused(JSON, 401, message, ((b"www-authenticate", scheme), *shared), reason="token")


def _refused(
    form: Format, status: int, message: str, extra: Headers = (), *, reason: str = "", code: str = ""
) -> Refusal:
    """Build a refusal whose body has the code that its status stands for, unless one is given."""
    body = form.encode({"error": message, "code": code or codes[status]})
    return Refusal(status, body, form.content_type, extra, reason)


def password_of(authorization: bytes) -> bytes:
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
