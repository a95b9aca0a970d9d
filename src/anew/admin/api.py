"""The application behind the admin listener: the same rules about who may come in, and three routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anew.http.api import Api, ApiSettings
from anew.http.router import Router
from anew.net.seam import Kind, Refusal, Request, WireCounters

_ABSENT = frozenset({404, 405, 406})


class AdminApi:
    """Answers requests to the admin listener.

    Args:
        settings: Who may come in.
        counters: Where refusals are counted.
        router: The routes; none of them negotiates what its answer looks like.
    """

    def __init__(self, settings: ApiSettings, counters: WireCounters, router: Router) -> None:
        self._api = Api(settings, counters, router)

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Refuse by the head alone, as the API does; what is not here is answered without a body, whatever `Accept` says."""
        refused = self._api.judge(method, path, headers)
        if refused is None or refused.status not in _ABSENT:
            return refused
        status = 404 if refused.status == 406 else refused.status
        return replace(refused, status=status, body=b"", content_type=None)

    def __call__(self, request: Request) -> None:
        """Answer a request that was not refused."""
        self._api(request)

    def kind_of(self, request: Request) -> Kind:
        """Nobody brings new work here."""
        return Kind.other

    def shed(self, request: Request) -> None:
        """Refuse a request, since too many others wait."""
        self._api.shed(request)
