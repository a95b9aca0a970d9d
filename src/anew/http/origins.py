"""Requests that a web page of another site makes a browser send: refused, but for the origins that are named.

Whatever page a user opens can make the browser send requests to this server, jobs taken and deleted among them, and the browser
does so from inside the user's machine or network. Browsers say where a request comes from, in ``Sec-Fetch-Site`` and ``Origin``;
other clients send neither and are not concerned.

Source:
    W3C, "Fetch Metadata Request Headers"; WHATWG, "Fetch", 3.2 (Origin) and 3.3 (CORS).
"""

from __future__ import annotations

from collections.abc import Mapping

from anew.net.seam import Headers, Request, Stream, WebSocket, type_json

PAGES = frozenset({b"/", b"/lab", b"/ui", b"/static"})
"""Pages for browsers, and the files that they load, are at these paths and below, but for the first, which sends on to one."""

_BELOW = tuple(path + b"/" for path in PAGES if path != b"/")
_FOREIGN_SITES = frozenset({b"cross-site", b"same-site"})
LOOKS = frozenset({b"GET", b"HEAD"})
_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_HEADERS = b"authorization, content-type, accept, idempotency-key, interruption-limit, worker-id"
"""All that routes look at and a browser sends only with leave."""

_PREFLIGHT: Headers = (
    (b"access-control-allow-methods", _METHODS),
    (b"access-control-allow-headers", _HEADERS),
    (b"access-control-max-age", b"600"),
)


def is_page(path: bytes) -> bool:
    """Say whether a path is a page or belongs to one."""
    return path in PAGES or path.startswith(_BELOW)


class Origins:
    """Judges where requests come from.

    Args:
        allowed: Origins of other sites that may use the API, as browsers write them (``https://example.org``).
        secure: This server's own pages come by TLS.
    """

    def __init__(self, allowed: frozenset[bytes], *, secure: bool = False) -> None:
        self._allowed = allowed
        self._scheme, self._port = (b"https://", b":443") if secure else (b"http://", b":80")

    def is_cross_site(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> bool:
        """Say whether a request comes from a page of another site that is not allowed to send it.

        A link to one of our pages is no such request: the other site sees nothing of the answer.
        """
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"").lower()
        if origin in self._allowed:
            return False
        foreign_origin = origin is not None and not self._is_own(origin, headers.get(b"host", b""), site)
        if not foreign_origin and site not in _FOREIGN_SITES:
            return False
        return not (is_page(path) and method in LOOKS and headers.get(b"sec-fetch-mode") == b"navigate")

    def _is_own(self, origin: bytes, host: bytes, site: bytes) -> bool:
        """Say whether an origin is this server's; where a proxy ends TLS, the browser has to say so too."""
        origin, host = origin.lower(), host.lower()
        behind_tls = site == b"same-origin" and origin == b"https://" + host.removesuffix(b":443")
        return behind_tls or origin == self._scheme + host.removesuffix(self._port)

    def answer_headers(self, headers: Mapping[bytes, bytes]) -> Headers:
        """Give what an answer to an allowed origin carries, so that the browser lets its page read it."""
        origin = headers.get(b"origin")
        if origin not in self._allowed or origin is None:
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"retry-after"),
            (b"vary", b"origin"),
        )

    def preflight_headers(self, method: bytes, headers: Mapping[bytes, bytes]) -> Headers:
        """Give the answer to an allowed origin's question what it may send; empty if this is no such question."""
        if method != b"OPTIONS" or b"access-control-request-method" not in headers:
            return ()
        allowed = self.answer_headers(headers)
        return allowed and (*allowed, *_PREFLIGHT)


class SharedRequest(Request):
    """A request from an allowed origin: its answer says so, by more headers."""

    __slots__ = ("_headers", "_request")

    def __init__(self, request: Request, headers: Headers) -> None:
        self._request = request
        self._headers = headers
        self.method, self.path, self.query = request.method, request.path, request.query
        self.headers, self.body = request.headers, request.body

    @property
    def gone(self) -> bool:
        return self._request.gone

    @property
    def hung_up(self) -> bool:
        return self._request.hung_up

    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        self._request.reply(status, body, content_type, (*extra, *self._headers))

    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        return self._request.open_stream(status, content_type, (*extra, *self._headers))

    def open_websocket(self, max_message: int) -> WebSocket | None:
        return self._request.open_websocket(max_message)
