"""The presets whose systems were read, not run: each law as its source has it, at the version and file that are named.

The figures are worked out by hand from what the source says; those of the systems that were run are in
`test_libraries`.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from anew.backoff import ALIASES, Policy

from .helpers import draw, misfits, told


class Read(NamedTuple):
    """What a source says of one preset.

    ``row`` gives the first waits in seconds, ``retries`` how many there are by default ("open": it names none).
    """

    source: str
    given: Any
    row: str
    retries: int | str | None


SIDEKIQ = "15-44 16-74 31-118 96-212"

READ = [
    # count^4 + 15 + rand(30) * (count + 1); count is 0 at the first failure; a retry while count < 25.
    Read("contribsys/faktory 1.10.0, manager/retry.go", "faktory", SIDEKIQ, 25),
    Read("sidekiq 2.6.0 to 6.2.1, lib/sidekiq/job_retry.rb", "sidekiq", SIDEKIQ, 25),
    # The die has ten faces, and is multiplied: 0, 1 ... 9 times count + 1.
    Read("sidekiq 6.2.2 to 7.3.9, lib/sidekiq/job_retry.rb", "sidekiq7", "15-24 16-34 31-58", 25),
    # rand(10 * (count + 1)): 0 to 9, to 19, to 29.
    Read("sidekiq 8.0.0 to 8.1.7, lib/sidekiq/job_retry.rb", "sidekiq8", "15-24 16-35 31-60", 25),
    # (attempt - 1)^4 + 15 + Next(30) * attempt, attempt from 1; a retry while attempt <= 10.
    Read("Hangfire 1.8.24, src/Hangfire.Core/AutomaticRetryAttribute.cs", "hangfire", SIDEKIQ, 10),
    # retry_count is 1 at the first; 0 to 30 both included, times retry_count + 1; dead when it is above 25.
    Read("Exq 0.23.0, lib/exq/backoff/sidekiq_default.ex", "exq", "16-76 31-121 96-216", 25),
    # 15 + 2^attempt, attempt from 1, and trunc(U * a tenth of that).
    Read("Oban 2.23.1, lib/oban/worker.ex and lib/oban/backoff.ex", "oban", "17-18 19-20 23-25 31-34", 19),
    # executions^4 and up to 0.15 of it, and 2; a retry while executions < 5.
    Read("Rails 8.2.0.alpha, activejob/lib/active_job/exceptions.rb", "rails", "3-3.15 18-20.4", 4),
    # attempts^4 + 5, attempts raised first; a retry while it is below 25.
    Read("delayed_job 4.2.0, lib/delayed/backend/base.rb", "delayed_job", "6 21 86 261", 24),
    # count^4 + 3 with error_count + 1; expired when that is above 15.
    Read("Que 2.4.1, lib/que/job.rb and lib/que/worker.rb", "que", "4 19 84 259", 15),
    Read(
        "resque-retry 1.8.1, lib/resque/plugins/exponential_backoff.rb",
        "resque",
        "0 60 600 3600 10800 21600 21600",
        6,
    ),
    # The attempt's own entry, else the last one.
    Read("Laravel 13.26.1, src/Illuminate/Queue/Worker.php", "laravel", "1 5 10 10 10", "open"),
    # round((2^attemptsMade - 1) * delay), attemptsMade raised first.
    Read("Bull 4.15.0, lib/backoffs.js", "bull", "1 3 7 15 31", "open"),
    # delay * multiplier^retries, a tenth either way; a retry while retries < 3.
    Read(
        "symfony/messenger 7.1.5, Retry/MultiplierRetryStrategy.php", "symfony", "0.9-1.1 1.8-2.2 3.6-4.4", 3
    ),
    # seed^failures, seed 3; none when failures are above 10.
    Read("JobRunr 8.7.1, RetryFilter.java", "jobrunr", "3 9 27 81 243 729 2187 6561 19683 59049", 10),
    # The table at the attempt, which is 0 at the first, and up to 30 s; DefaultRetryCount 4.
    Read("Inngest 1.43.0, pkg/backoff/backoff.go", "inngest", "15-45 30-60 60-90 120-150", 4),
    # factor * base^n, n from 0, and full jitter.
    Read("backoff 2.2.1, backoff/_wait_gen.py and _jitter.py", "backoff_expo", "0-1 0-2 0-4 0-8", "open"),
    Read("tenacity 9, tenacity/wait.py", "tenacity_fixed", "1 1", "open"),
    Read("tenacity 9, tenacity/wait.py", "tenacity_exponential", "1 2 4 8", "open"),
    # default_retry_delay 3 * 60, max_retries 3.
    Read("Celery 5.7.0, celery/app/task.py", "celery_retry", "180 180 180", 3),
    Read("Polly 8.7.0, src/Polly.Core/Retry/RetryHelper.cs", "polly_constant", "2 2 2", 3),
    Read("Polly 8.7.0, src/Polly.Core/Retry/RetryHelper.cs", "polly_linear", "2 4 6", 3),
    Read("Polly 8.7.0, src/Polly.Core/Retry/RetryHelper.cs", "polly_exponential", "2 4 8", 3),
    Read(
        "Polly 8.7.0, src/Polly.Core/Retry/RetryHelper.cs, ApplyJitter",
        {"preset": "polly_linear", "jitter": {"around": 0.25}},
        "1.5-2.5 3-5 4.5-7.5",
        3,
    ),
    # 2^(attempt + U) * tanh(sqrt(4 * (attempt + U))), less the value before, times 2 s / 1.4.
    Read("Polly 8.7.0, RetryHelper.cs, DecorrelatedJitterBackoffV2", "polly_v2", "0-2.754 0-5.674", 3),
    # 10 s doubled for each failure after the first, at most MaxJobPodFailureBackOff.
    Read(
        "Kubernetes, pkg/controller/job/backoff_utils.go and job_controller.go",
        "kubernetes_job",
        "10 20 40 80 160 320 600 600",
        6,
    ),
    # Nothing is remembered at the first crash, so it restarts; Next() then remembers 10 s for the second.
    Read(
        "Kubernetes, kuberuntime_manager.go (doBackOff) and client-go util/flowcontrol/backoff.go",
        "kubernetes_crash_loop",
        "0 10 20 40 80 160 300 300",
        None,
    ),
    # attempts_max 100, min 0.1 s, max 3600 s, 16 doublings: what a new queue has.
    Read("Cloud Tasks v2, RetryConfig", "cloud_tasks", "0.1 0.2 0.4 0.8 1.6", 99),
    Read(
        "Cloud Tasks v2, RetryConfig, max_doublings",
        {"preset": "cloud_tasks", "base": "10s", "doublings": 3, "cap": "300s"},
        "10 20 40 80 160 240 300 300",
        99,
    ),
    Read("AWS CDK, aws_stepfunctions.RetryProps", "step_functions", "1 2 4", 3),
    Read("Amazon SNS, message delivery retries", "sns_managed", "0 0 0 1 1 1", 100_015),
    Read("Amazon SNS, message delivery retries", "sns_customer", "10 10 10", 50),
    Read("AWS CDK, aws_sns.HealthyRetryPolicy", "sns_http", "20 20 20", 3),
    # It raises its counter before it asks: with base 5 and cap 2000 the first ceiling is 10.
    Read(
        "aws-arch-backoff-simulator 66cb169, src/backoff_simulator.py",
        {"preset": "aws_full", "base": "10s", "cap": "2000s"},
        "0-10 0-20 0-40",
        "open",
    ),
    Read("aws-arch-backoff-simulator 66cb169", "aws_decorrelated", "1-3 1-9 1-20", "open"),
    Read(
        "Zaqar e77036a, zaqar/notification/tasks/webhook.py and common/consts.py",
        "zaqar_shipped",
        "0 0 0 5 5 5 5 10 15 20 25 30 30 30",
        14,
    ),
    Read(
        "Standard Webhooks b2fa7b8, spec/standard-webhooks.md",
        "standard_webhooks",
        "5 300 1800 7200 18000",
        9,
    ),
    # attempts^4 s + base + rand * jitter * attempts, attempts raised first; dead when attempts > 25.
    Read("Zizq 0.6.1, src/store/fail.rs", "zizq", "16-46 31-91 96-186", 25),
    Read("Zizq 0.6.0, src/store/fail.rs", "zizq_before_0_6_1", "15.001-75.001 15.016-105.016", 25),
    Read("pidgn_jobs (once zzz_jobs) 0.3.1-beta.1, README.md", "linear", "60 120 180", "open"),
    # base << attempt, attempt raised when the job is taken; up to a quarter more.
    Read(
        "pidgn_jobs (once zzz_jobs) 0.3.1-beta.1, src/retry.zig and memory_store.zig",
        {"preset": "zzz_jobs", "literal": True},
        "30-37.5 60-75 120-150",
        19,
    ),
    Read("ananthakumaran.github.io c5daeb7, public/js/backoff.js", "constant", "300 300", "open"),
    Read("ananthakumaran.github.io c5daeb7, public/js/backoff.js", "exponential", "300 420 660", "open"),
    Read("ananthakumaran.github.io c5daeb7, public/js/backoff.js", "sidekiq_chart", "16-76 31-121", "open"),
    Read("Visualization of backoff functions, 2017", "buckets", "1-27 8-64 27-125", "open"),
    # 1, then the larger of twice that and 30.
    Read("faktory_worker_go 1.7.0, runner.go", "faktory_worker_go", "1 30 60 120 240", None),
]


@pytest.mark.parametrize("read", READ, ids=lambda read: f"{read.source}: {read.given}")
def test_waits_are_those_of_the_source(read: Read) -> None:
    assert misfits(read.given, read.row) == []


@pytest.mark.parametrize("read", READ, ids=lambda read: f"{read.source}: {read.given}")
def test_as_many_retries_as_the_source_has(read: Read) -> None:
    form = Policy.from_json(read.given).to_json()
    if read.retries == "open":
        assert "limit" not in form
    else:
        assert Policy.from_json(read.given).retries == read.retries


def test_bull_is_not_bullmq() -> None:
    """Bull 4.15: 1, 3, 7, 15 times the delay; BullMQ: 1, 2, 4, 8 times."""
    assert "bull" not in ALIASES
    assert misfits({"preset": "bull", "base": "2s"}, "2 6 14 30") == []
    assert misfits({"preset": "bullmq", "base": "2s"}, "2 4 8 16") == []


def test_bulls_waits_end_at_365_days() -> None:
    day = 86_400
    waits = [policy_wait("bull", k) for k in (25, 26, 1_000)]
    assert waits == [365 * day] * 3
    assert policy_wait("bull", 24) == 2**24 - 1
    assert misfits({"preset": "bull", "base": 0}, "0 0 0") == []


def policy_wait(given: Any, retry: int) -> float:
    """One nominal wait in seconds."""
    return Policy.from_json(given).nominal(retry) / 1_000


@pytest.mark.parametrize(
    ("name", "faces"), [("sidekiq", 30), ("sidekiq7", 10), ("exq", 31), ("hangfire", 30)]
)
def test_a_die_has_as_many_faces_as_the_source_gives_it(name: str, faces: int) -> None:
    """Faktory's and Sidekiq's rand(30), Sidekiq 7's rand(10), Exq's Enum.random(0..30), Hangfire's Next(30)."""
    assert len(set(draw(name, 9, 2_000))) == faces


def test_svixs_schedule_is_the_one_the_trap_gives() -> None:
    """svix-server 2.0.0, config.default.toml: seven waits, each a fifth either way (worker.rs, JITTER_DELTA 0.2)."""
    given = {
        "preset": "standard_webhooks",
        "waits": ["5s", "5m", "30m", "2h", "5h", "10h", "10h"],
        "jitter": {"around": 0.2},
    }
    row = "4-6 240-360 1440-2160 5760-8640 14400-21600 28800-43200 28800-43200"
    assert misfits(given, row) == []
    assert Policy.from_json(given).retries == 7


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # An error that is no NoHandlerError sleeps 50 ms; the doubling wait is in the other branch.
        ("faktory_worker_go", ("branches are swapped", "50 ms", "given up after 30 s")),
        ("kubernetes_crash_loop", ("first restart does not wait", "Ten minutes")),
        ("kubernetes_job", ("six minutes", "ten")),
        # destroy_failed_jobs is true in lib/delayed/worker.rb.
        ("delayed_job", ("deleted, unless destroy_failed_jobs",)),
        # 0.14.3 has no maximum_retry_count, 1.0.0 has 15.
        ("que", ("Before 1.0",)),
        # retry_on's wait: 3.seconds; load_defaults 6.1 sets retry_jitter 0.15.
        ("rails", ("waits 3 s", "GoodJob", "Rails 6.0")),
        # 2.5.0 has none, 2.6.0 has rand(30) * (count + 1).
        ("sidekiq", ("Before 2.6", "sidekiq7")),
        ("symfony", ("class alone multiplies by 1", "since 7.1", "after the jitter")),
        # getScheduledJobs(now + 15 s), every 15 s.
        ("jobrunr", ("every 15 s",)),
        ("buckets", ("3.5",)),
        ("zzz_jobs", ("second of the failure", "literal")),
        ("linear", ("120 s",)),
        ("bullmq", ("bull.",)),
        ("standard_webhooks", ("Svix", "a fifth either way")),
        ("backoff_expo", ("max_value",)),
        # Plain resque-retry has retry_limit 1 and retry_delay 0.
        ("resque", ("a single retry, at once",)),
    ],
)
def test_what_the_source_says_beside_its_law_is_told(name: str, words: Iterable[str]) -> None:
    for each in words:
        assert each in told(name)
