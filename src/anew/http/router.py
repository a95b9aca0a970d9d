"""Finds the handler for a method and a path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote_to_bytes

from anew.errors import MalformedRequest, TooLarge
from anew.http.formats import SUPPORTED, Format
from anew.http.roles import Roles, roles_of
from anew.net.seam import Kind, Request

Handler = Callable[[Request, Format, tuple[str, ...]], None]
"""Takes the request, the format that its answer wants, and the path's parameters in order."""


_PERCENT = ord("%")
"""As a number: to look for bytes in bytes raises, and drops, an exception first."""


@dataclass(frozen=True, slots=True)
class Doc:
    """What ``/openapi.json`` says of a method of a path, beside what follows from these and its handler's docstring.

    Attributes:
        name: Its operationId.
        tag: The group that it is listed in.
        answers: Schemas by status; "" where no shape is described, and with 204, which has no body.
        body: Schema of the request's body, if it has one; it must come unless `body_required` is False.
        query: Groups of query parameters, separated by blanks.
        errors: Statuses that no rule of `openapi` gives.
        forms: Media types of the answer; a single one is sent whatever ``Accept`` says.
        problems: Refusals are ``application/problem+json``, except those of the outer layers; bodies are JSON alone.
        about: One sentence; the handler's docstring unless that describes the implementation.
    """

    name: str
    tag: str
    answers: Mapping[int, str] = field(default_factory=lambda: {204: ""})
    body: str = ""
    body_required: bool = True
    query: str = ""
    errors: Sequence[int] = ()
    forms: Sequence[str] = tuple(SUPPORTED)
    problems: bool = False
    about: str = ""


class Route:
    """One path: its handlers by method.

    Attributes:
        template: The path as documented, such as ``/jobs/{id}``.
        streams: The path answers with a stream and looks at ``Accept`` by itself.
        kinds: By method what its requests are for, where that is not `Kind.other`.
        docs: By method what the document says, unless it is silent about it.
        most: By method the bytes that a body may have, where they are bounded.
        roles: By method the roles of which one is needed.
        unbounded: The methods whose bodies have no bound of their own.
    """

    __slots__ = ("allow", "docs", "handlers", "kinds", "most", "roles", "streams", "template", "unbounded")

    def __init__(self, template: str, *, streams: bool) -> None:
        self.template = template
        self.streams = streams
        self.handlers: dict[bytes, Handler] = {}
        self.kinds: dict[bytes, Kind] = {}
        self.docs: dict[bytes, Doc] = {}
        self.allow = b""
        self.most: dict[bytes, int] = {}
        self.roles: dict[bytes, Roles] = {}
        self.unbounded: set[bytes] = set()


Found = tuple[Route | None, tuple[str, ...]]
"""A path's route, if there is one, and the path's decoded parameters."""


class Router:
    """A tree of path segments; a literal wins over a parameter.

    Args:
        roles: Gives the roles of which one is needed for a method of a path, and raises where nothing is said about it.

    Attributes:
        routes: All of them, in the order in which they were added.
        literal: Those without parameters, by their whole path.
    """

    def __init__(self, roles: Callable[[str, str], Roles] = roles_of) -> None:
        self._roles = roles
        # A tree of such dicts: parameters under None, a Route under b"/".
        self._root: dict[bytes | None, Any] = {}
        self.routes: list[Route] = []
        self.literal: dict[bytes, Route] = {}

    def add(
        self,
        method: str,
        template: str,
        handler: Handler,
        doc: Doc | None = None,
        *,
        streams: bool = False,
        kind: Kind = Kind.other,
        most_bytes: int | None = None,
    ) -> None:
        """Serve a method of a path; ``GET`` serves ``HEAD`` too.

        Args:
            method: Upper case.
            template: The path with parameters in braces, such as ``/jobs/{id}/errors``.
            handler: What answers.
            doc: What ``/openapi.json`` says of it; None leaves it out.
            streams: The handler negotiates its own format.
            kind: What its requests are for.
            most_bytes: What a body may have; a longer one is refused, by the head where that says the length.

        Raises:
            InternalError: Nothing says which roles it takes.
        """
        roles = self._roles(method, template)
        node = self._root
        for segment in template.encode("ascii").split(b"/")[1:]:
            key = None if segment.startswith(b"{") else segment
            node = node.setdefault(key, {})
        if b"/" not in node:
            node[b"/"] = Route(template, streams=streams)
            self.routes.append(node[b"/"])
        route: Route = node[b"/"]
        if "{" not in template:
            self.literal[template.encode("ascii")] = route
        route.handlers[method.encode("ascii")] = (
            handler if most_bytes is None else _bounded(handler, most_bytes)
        )
        route.kinds[method.encode("ascii")] = kind
        route.roles[method.encode("ascii")] = roles
        if doc is not None:
            words = (handler.__doc__ or "").partition("\n")[0]
            route.docs[method.encode("ascii")] = doc if doc.about else replace(doc, about=words)
        if most_bytes is not None:
            route.most[method.encode("ascii")] = most_bytes
        if method == "GET":
            route.handlers[b"HEAD"] = handler
            route.roles[b"HEAD"] = roles
        route.allow = b", ".join(sorted(route.handlers))
        route.unbounded = route.handlers.keys() - route.most.keys()

    def find(self, path: bytes) -> Found:
        """Find the route of a raw path and its decoded parameters.

        Raises:
            MalformedRequest: A parameter is not UTF-8 once decoded.
        """
        node = self._root
        params: tuple[str, ...] = ()
        for segment in path.split(b"/")[1:]:  # no segment holds a slash, so none meets a Route's key
            if segment in node:
                node = node[segment]
            elif segment and None in node:
                node = node[None]
                params += (_decode(segment),)
            else:
                return None, ()
        return node.get(b"/"), params


def _bounded(handler: Handler, most: int) -> Handler:
    def bounded(request: Request, form: Format, params: tuple[str, ...]) -> None:
        if len(request.body) > most:
            raise too_large(most)
        handler(request, form, params)

    return bounded


def too_large(most: int) -> TooLarge:
    """Word the refusal of a body above a route's bound."""
    return TooLarge(f"the body of this request has at most {most} bytes")


def _decode(segment: bytes) -> str:
    try:
        return (unquote_to_bytes(segment) if _PERCENT in segment else segment).decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedRequest("the path is not valid UTF-8 once percent-decoded", field="path") from None
