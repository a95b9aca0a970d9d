"""The verbs of the queue over HTTP, for programs that speak to a running server."""

from anew.client.client import Client
from anew.client.parameters import Filters
from anew.client.stream import TakeStream
from anew.client.views import (
    CronView,
    Draft,
    ErrorView,
    Failure,
    FailureResult,
    JobView,
    LastError,
    LimitView,
    Page,
    QueueCounts,
    RateView,
    Ties,
    UniqueTie,
)

__all__ = [
    "Client",
    "CronView",
    "Draft",
    "ErrorView",
    "Failure",
    "FailureResult",
    "Filters",
    "JobView",
    "LastError",
    "LimitView",
    "Page",
    "QueueCounts",
    "RateView",
    "TakeStream",
    "Ties",
    "UniqueTie",
]
