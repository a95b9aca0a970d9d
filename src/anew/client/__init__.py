"""The verbs of the queue over HTTP, for programs that speak to a running server."""

from typing import TYPE_CHECKING, Any

from anew.client.client import Client
from anew.client.parameters import Filters
from anew.client.stream import TakeStream
from anew.client.views import (
    AsyncPage,
    CronView,
    Draft,
    DueView,
    ErrorView,
    Failure,
    FailureResult,
    JobView,
    LastError,
    LimitView,
    Page,
    PlanView,
    QueueCounts,
    RateView,
    Ties,
    UniqueTie,
)

if TYPE_CHECKING:
    from anew.client.async_client import AsyncClient, AsyncTakeStream

__all__ = [
    "AsyncClient",
    "AsyncPage",
    "AsyncTakeStream",
    "Client",
    "CronView",
    "Draft",
    "DueView",
    "ErrorView",
    "Failure",
    "FailureResult",
    "Filters",
    "JobView",
    "LastError",
    "LimitView",
    "Page",
    "PlanView",
    "QueueCounts",
    "RateView",
    "TakeStream",
    "Ties",
    "UniqueTie",
]


def __getattr__(name: str) -> Any:
    """Import asyncio only for programs that use it: it takes longer than all else here."""
    if name in ("AsyncClient", "AsyncTakeStream"):
        from anew.client import async_client

        return getattr(async_client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
