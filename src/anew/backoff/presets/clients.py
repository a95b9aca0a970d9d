"""Clients of services: how they come back to what they call."""

from __future__ import annotations

from anew.backoff.kinds import CEILING_MS
from anew.backoff.presets.registry import FACTOR, SHARE, WAIT, Family, Form

_client = Family("clients")


@_client(
    "grpc",
    "grpc_connect",
    source="gRPC, connection backoff; grpc-go",
    origin="counts from 0",
    counts="nothing: it connects for ever",
    traps=(
        "The first wait has no jitter: clients that lose a server together come back together once.",
        "The jitter comes after the cap: waits go up to 144 s for a cap of 120 s.",
        "The wait counts from the start of the attempt before, and a connect gets at least 20 s.",
    ),
    takes={"base": WAIT, "factor": FACTOR, "share": SHARE},
    names={"BaseDelay": "base", "Multiplier": "factor", "Jitter": "share", "MaxDelay": "cap"},
)
def _grpc(base: int = 1_000, factor: float = 1.6, share: float = 0.2) -> Form:
    """gRPC's connections: 1 s, then times 1.6 up to 2 minutes and a fifth either way, for ever."""
    return {
        "curve": {"exponential": {"base": base, "factor": factor}},
        "cap": "2m",
        "jitter": {"around": {"share": share, "since": 2}},
        "limit": None,
    }


@_client(
    "google_api_core",
    "google_api",
    source="google-api-core 2.11 to 2.44 for Python, Retry",
    origin="no counter: the delay doubles after each wait, so from 0 in effect",
    counts="nothing; it stops after 2 minutes",
    traps=(
        "A wait may be next to nothing: it is full jitter.",
        "Before 2.11 it drew up to twice the delay and cut that at a minute: from the 7th retry on most waits were exactly it.",
    ),
    takes={"base": WAIT, "factor": FACTOR},
    names={
        "initial": "base: in seconds",
        "multiplier": "factor",
        "maximum": "cap: in seconds",
        "timeout": "deadline: in seconds",
    },
)
def _google_api_core(base: int = 1_000, factor: float = 2) -> Form:
    """google-api-core: anything below 1 s doubling to a minute, for 2 minutes."""
    return {
        "curve": {"exponential": {"base": base, "factor": factor}},
        "cap": "1m",
        "jitter": "full",
        "limit": None,
        "deadline": "2m",
    }


@_client(
    "urllib3",
    "requests",
    "backoff_factor",
    source="urllib3 2, Retry",
    origin="counts errors from 1; the first retry comes at once whatever the factor",
    counts="retries: total 10, so 11 runs",
    traps=(
        "The second retry waits twice the factor: the wait of the factor itself never happens.",
        "The default factor is 0: no wait at all. Here it is 1 s.",
        "The cap of 2 minutes comes after the jitter, which exists since 2.0.",
    ),
    takes={"factor": WAIT, "jitter_by": WAIT},
    names={
        "total": "limit",
        "backoff_factor": "factor: in seconds",
        "backoff_jitter": "jitter_by: in seconds",
        "backoff_max": "ceil: in seconds",
    },
)
def _urllib3(factor: int = 1_000, jitter_by: int = 0) -> Form:
    """urllib3 with backoff_factor 1: at once, then 2 s doubling to 2 minutes; 10 retries in 8.1 minutes."""
    return {
        "phases": [
            {"curve": {"constant": 0}, "count": 1},
            {"curve": {"exponential": {"base": min(2 * factor, CEILING_MS)}}},
        ],
        "jitter": {"add": {"by": jitter_by, "since": 2}} if jitter_by else "none",
        "ceil": "2m",
        "limit": 10,
    }


@_client(
    "faktory_worker_node",
    source="faktory_worker for Node, connecting",
    origin="counts from 1",
    counts="nothing: it connects for ever",
    traps=("No jitter: a fleet comes back to a restarted server in step.",),
)
def _faktory_worker_node() -> Form:
    """faktory_worker for Node, connecting: 0.2k s up to 4 s, for ever."""
    return {"curve": {"linear": {"base": "200ms", "step": "200ms"}}, "cap": "4s", "limit": None}


@_client(
    "faktory_worker_go",
    source="faktory_worker_go 1.6.1 and 1.7, runner.go",
    origin="no counter: the wait doubles after each error",
    counts="nothing: it fetches for ever",
    traps=(
        "The larger of twice the wait and 30 s is taken where the smaller was meant: waits grow without bound.",
        "It was meant for a server that cannot be reached, but the branches are swapped: then it fetches again every 50 ms, "
        "and this is for jobs of a type that nobody handles.",
        "Since 1.7 a result that cannot be reported waits alike, and is given up after 30 s.",
        "No jitter.",
    ),
)
def _faktory_worker_go() -> Form:
    """faktory_worker_go, after a job that nobody handles: 1 s, 30 s, then doubling without end."""
    return {
        "phases": [
            {"curve": {"constant": "1s"}, "count": 1},
            {"curve": {"exponential": {"base": "30s"}}},
        ],
        "limit": None,
    }
