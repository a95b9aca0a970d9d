"""What cloud platforms and their SDKs do."""

from __future__ import annotations

from functools import partial

from anew.backoff.kinds import CEILING_MS, Integer, Number
from anew.backoff.presets.registry import FACTOR, WAIT, Family, Form

_cloud = Family("clouds")

_blog = partial(
    _cloud,
    source='M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015',
    counts="nothing; the simulator tries until it succeeds",
)
_BLOG_ORIGIN = (
    "the prose counts from 0; the published simulator counts up first and so starts at twice the base"
)
_AWS_NAMES = {"total_max_attempts": "limit: attempts - 1", "AWS_MAX_ATTEMPTS": "limit: attempts - 1"}


@_blog(
    "aws_full",
    "full_jitter",
    "full",
    origin=_BLOG_ORIGIN,
    traps=(
        "The mean wait is half the nominal one: a policy moved here from no jitter gives up in half the time.",
        "A wait may be next to nothing.",
    ),
    takes={"base": WAIT, "factor": FACTOR},
)
def _aws_full(base: int = 1_000, factor: float = 2) -> Form:
    """Full jitter of the AWS blog: anything from nothing to 1 s doubling to 20 s."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "cap": "20s", "jitter": "full"}


@_blog(
    "aws_equal",
    "equal_jitter",
    "equal",
    origin=_BLOG_ORIGIN,
    traps=("The mean wait is three quarters of the nominal one.",),
    takes={"base": WAIT, "factor": FACTOR},
)
def _aws_equal(base: int = 1_000, factor: float = 2) -> Form:
    """Equal jitter of the AWS blog: the upper half of 1 s doubling to 20 s."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "cap": "20s", "jitter": "equal"}


@_blog(
    "aws_decorrelated",
    "decorrelated_jitter",
    "decorrelated",
    origin="none: the wait before takes the counter's place, and starts at the base",
    traps=(
        "In the long run 41 % of the waits are exactly the cap: jobs that are together there leave together.",
        "It climbs far more slowly than doubling: a typical wait grows by a tenth, the mean by half.",
        "The wait before must be stored with the job.",
    ),
    takes={"base": WAIT, "times": Number(1, 1_000)},
)
def _aws_decorrelated(base: int = 1_000, times: float = 3) -> Form:
    """Decorrelated jitter of the AWS blog: from 1 s to three times the wait before, at most 20 s."""
    return {"curve": {"constant": base}, "jitter": {"decorrelated": times}, "ceil": "20s"}


@_cloud(
    "aws_sdk",
    "aws_sdk_standard",
    source="AWS SDK retry behaviour, standard mode before the rules of 2026; botocore before 1.44",
    origin="counts attempts from 1 and subtracts 1: from 0 in effect",
    counts="runs: max attempts 3, so 2 retries",
    traps=(
        "Both retries may come within a millisecond.",
        "botocore 1.44 keeps it for throttling only; other errors go by the rules of 2026: aws_sdk_2026.",
        "botocore's own default before 1.44 was the legacy mode: 4 retries, the same doubling, and no cap.",
        "Adaptive mode has the same waits, and holds back first tries besides.",
        "A bucket of 500 tokens limits retries besides: one costs 5, and none is left in a long outage.",
    ),
    takes={"base": WAIT},
    names=_AWS_NAMES,
)
def _aws_sdk(base: int = 1_000) -> Form:
    """AWS SDKs in standard mode: anything below 1 s doubling to 20 s; 2 retries."""
    return {"curve": {"exponential": {"base": base}}, "cap": "20s", "jitter": "full", "limit": 2}


@_cloud(
    "aws_sdk_2026",
    "botocore",
    source="AWS SDK retry behaviour, the rules of 2026; botocore 1.44",
    origin="counts attempts from 1 and subtracts 1: from 0 in effect",
    counts="runs: max attempts 3, so 2 retries; DynamoDB 4, so 3",
    traps=(
        "50 ms is the base of ordinary errors; throttling has 1 s, DynamoDB 25 ms.",
        "A wait that the server asks for is taken, but never below the drawn wait nor more than 5 s above it.",
        "An ordinary retry costs 14 tokens of 500, one after throttling 5.",
        "Before November 2026 most SDKs asked for AWS_NEW_RETRIES_2026=true, botocore 1.43 among them.",
    ),
    takes={"base": WAIT},
    names=_AWS_NAMES,
)
def _aws_sdk_2026(base: int = 50) -> Form:
    """AWS SDKs by the rules of 2026: anything below 50 ms doubling to 20 s; 2 retries."""
    return {"curve": {"exponential": {"base": base}}, "cap": "20s", "jitter": "full", "limit": 2}


@_cloud(
    "step_functions",
    "states",
    source="AWS Step Functions, Retry fields",
    origin="counts from 0",
    counts="retries: MaxAttempts 3, so 4 runs",
    traps=(
        "No jitter unless JitterStrategy is FULL: add the jitter full for that.",
        "No cap unless MaxDelaySeconds is set: add a cap for that.",
    ),
    takes={"base": WAIT, "factor": FACTOR},
    names={
        "IntervalSeconds": "base: in seconds",
        "BackoffRate": "factor",
        "MaxAttempts": "limit: it counts retries, so the same number",
        "MaxDelaySeconds": "cap: in seconds",
        "JitterStrategy": 'jitter: FULL is "full"',
    },
)
def _step_functions(base: int = 1_000, factor: float = 2) -> Form:
    """AWS Step Functions: 1 s doubling; 3 retries in 7 s."""
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "limit": 3}


@_cloud(
    "cloud_tasks",
    "google_cloud_tasks",
    "app_engine",
    source="Google Cloud Tasks, RetryConfig",
    origin="counts from 0",
    counts="runs: maxAttempts 100, so 99 retries",
    traps=(
        "maxAttempts and maxRetryDuration must both be spent before it gives up.",
        "After so many doublings the wait goes on in a straight line.",
        "No jitter is documented.",
    ),
    takes={"base": WAIT, "doublings": Integer(0, 1_000_000)},
    names={
        "minBackoff": "base",
        "maxBackoff": "cap",
        "maxDoublings": "doublings",
        "maxAttempts": "limit: attempts - 1, -1 is null",
    },
)
def _cloud_tasks(base: int = 100, doublings: int = 16) -> Form:
    """Google Cloud Tasks: 0.1 s doubling 16 times, up to an hour; 99 retries in 3.5 days."""
    return {"curve": {"exponential": {"base": base, "knee": doublings}}, "cap": "1h", "limit": 99}


@_cloud(
    "kubernetes_job",
    "k8s_job",
    source="Kubernetes, Job backoffLimit; its controller, pkg/controller/job",
    origin="counts from 0",
    counts="retries: backoffLimit 6, so 7 runs",
    traps=(
        "The manual says that waits stop at six minutes; the controller stops them at ten. It takes a seventh retry to see.",
        "A pod that succeeds sets the counter back.",
        "No jitter.",
    ),
    takes={"base": WAIT},
    names={"backoffLimit": "limit"},
)
def _kubernetes_job(base: int = 10_000) -> Form:
    """A Kubernetes Job: 10 s doubling to 10 minutes; 6 retries in 10.5 minutes."""
    return {"curve": {"exponential": {"base": base}}, "cap": "10m", "limit": 6}


@_cloud(
    "kubernetes_crash_loop",
    "crash_loop_back_off",
    "k8s_crash_loop",
    source="Kubernetes, restart policy of containers; the kubelet",
    origin="the first restart comes at once, and from there it counts from 0",
    counts="nothing: it restarts for ever",
    traps=(
        "The first restart does not wait: 10 s come before the second.",
        "Ten minutes of health set the counter back.",
        "Since Kubernetes 1.35 a node's own configuration may lower the cap.",
        "Kubernetes 1.33 has a gate, off by default, that starts at 1 s and stops at a minute.",
        "No jitter.",
    ),
    takes={"base": WAIT},
)
def _kubernetes_crash_loop(base: int = 10_000) -> Form:
    """CrashLoopBackOff of Kubernetes: at once, then 10 s doubling to 5 minutes, for ever."""
    return {
        "phases": [{"curve": {"constant": 0}, "count": 1}, {"curve": {"exponential": {"base": base}}}],
        "cap": "5m",
        "limit": None,
    }


@_cloud(
    "azure_storage",
    source="azure-storage-blob 12 for Python, ExponentialRetry",
    origin="counts from 1",
    counts="retries: 3, so 4 runs",
    traps=(
        "3 to the power of the attempt: the tenth wait is 16 hours.",
        "The jitter is 3 s either way however long the wait is.",
    ),
    names={"retry_total": "limit"},
)
def _azure_storage() -> Form:
    """Azure Storage for Python: 15 + 3^k s, 3 s either way; 3 retries in about 84 s."""
    # The same window, told from its lower end: 3 s less, and up to 6 s more.
    growing = {"exponential": {"base": "3s", "factor": 3}}
    return {"curve": {"sum": [{"constant": "12s"}, growing]}, "jitter": {"add": "6s"}, "limit": 3}


@_cloud(
    "azure_core",
    source="azure-core 1.0 to 1.41 for Python, RetryPolicy",
    origin="counts errors from 1; the first retry comes at once whatever the factor",
    counts="retries: 3 of each kind (connecting, reading, answers), so 4 runs of a call that always fails alike",
    traps=(
        "retry_total is 10, but three retries of one kind are the end, so nine are the most.",
        "The second retry waits twice the factor: the wait of the factor itself never happens.",
        "No jitter.",
    ),
    takes={"base": WAIT},
    names={"retry_backoff_factor": "base: in seconds", "retry_backoff_max": "cap: in seconds"},
)
def _azure_core(base: int = 800) -> Form:
    """azure-core for Python: at once, then 1.6 s doubling to 2 minutes; 3 retries in 4.8 s."""
    return {
        "phases": [
            {"curve": {"constant": 0}, "count": 1},
            {"curve": {"exponential": {"base": min(2 * base, CEILING_MS)}}},
        ],
        "cap": "2m",
        "limit": 3,
    }


@_cloud(
    "temporal",
    "temporal_activity",
    source="Temporal, retry policies of activities",
    origin="counts attempts from 1 and subtracts 1: from 0 in effect",
    counts="runs: maximum attempts 0, which is unlimited; m runs are m - 1 retries",
    traps=(
        "No jitter on the schedule; only the server's internal retrier has some.",
        "A delay that the error itself asks for ignores the cap; where a whole workflow is retried, it does not.",
        "A wait that would pass the expiry ends the retries at once.",
    ),
    takes={"base": WAIT, "factor": FACTOR},
    names={
        "InitialInterval": "base",
        "BackoffCoefficient": "factor",
        "MaximumInterval": "cap",
        "MaximumAttempts": "limit: attempts - 1, 0 is null",
        "ScheduleToCloseTimeout": "deadline",
    },
)
def _temporal(base: int = 1_000, factor: float = 2) -> Form:
    """Temporal's activities: 1 s doubling to a hundred times that, for ever."""
    cap = min(100 * base, CEILING_MS)
    return {"curve": {"exponential": {"base": base, "factor": factor}}, "cap": cap, "limit": None}
