"""The verbs of the queue over HTTP, for programs that speak to a running server."""

from anew.client.client import Client
from anew.client.query import Filters
from anew.client.stream import TakeStream
from anew.client.views import Draft, ErrorView, JobView, Page

__all__ = ["Client", "Draft", "ErrorView", "Filters", "JobView", "Page", "TakeStream"]
