"""The tables of the field: every preset's first ten retries and its window, as published for its system.

The figures are those of the systems' documents, computed from the published formulas, at the precision that is
written. In seconds: ``16-46`` is a wait from 16 s to 46 s, the lower end included.
"""

from typing import Any

import pytest

from anew.backoff import PRESETS, Policy

from .helpers import DAY, HOUR, misfits, window

SIDEKIQ = "15-44 16-74 31-118 96-212 271-416 640-814 1311-1514 2416-2648 4111-4372 6576-6866"
N4 = "16-46 31-91 96-186 271-391 640-790 1311-1491 2416-2626 4111-4351 6576-6846 10015-10315"
FULL_20 = "0-1 0-2 0-4 0-8 0-16 0-20 0-20 0-20 0-20 0-20"
DOUBLING = "1 2 4 8 16 32 64 128 256 512"
TO_300 = "10 20 40 80 160 240 300 300 300 300"

ROWS: list[tuple[Any, str]] = [
    # Zizq; Faktory and the Sidekiqs.
    ("zizq", N4),
    ({"base_ms": 15_000, "exponent": 4.0, "jitter_ms": 30_000}, N4),
    ("zizq_from_zero", f"15 {N4.rpartition(' ')[0]}"),
    (
        "zizq_before_0_6_1",
        "15-75 15.02-105 15.08-135.1 15.26-165.3 15.62-195.6 16.3-226.3 17.4-257.4 19.1-289.1 21.56-321.6 25-355",
    ),
    ("faktory", SIDEKIQ),
    ("sidekiq", SIDEKIQ),
    ("sidekiq7", "15-24 16-34 31-58 96-132 271-316 640-694 1311-1374 2416-2488 4111-4192 6576-6666"),
    ("sidekiq8", "15-24 16-35 31-60 96-135 271-320 640-699 1311-1380 2416-2495 4111-4200 6576-6675"),
    ("hangfire", SIDEKIQ),
    ("asynq", SIDEKIQ),
    ("exq", "16-76 31-121 96-216 271-421 640-820 1311-1521 2416-2656 4111-4381 6576-6876 10015-10345"),
    # "Visualization of backoff functions".
    ("constant", "300 300 300 300 300 300 300 300 300 300"),
    ("exponential", "300 420 660 1140 2100 4020 7860 15540 30900 61620"),
    (
        "sidekiq_chart",
        "16-76 31-121 96-216 271-421 640-820 1311-1521 2416-2656 4111-4381 6576-6876 10015-10345",
    ),
    ("buckets", "1-27 8-64 27-125 64-216 125-343 216-512 343-729 512-1000 729-1331 1000-1728"),
    (
        {"preset": "buckets", "origin": 0},
        "0-8 1-27 8-64 27-125 64-216 125-343 216-512 343-729 512-1000 729-1331",
    ),
    # zzz_jobs.
    ("zzz_jobs", "15-18.75 30-37.5 60-75 120-150 240-300 480-600 960-1200 1920-2400 3600-4500 3600-4500"),
    (
        {"preset": "zzz_jobs", "literal": True},
        "30-37.5 60-75 120-150 240-300 480-600 960-1200 1920-2400 3600-4500 3600-4500 3600-4500",
    ),
    ("linear", "60 120 180 240 300 360 420 480 540 600"),
    ("even", "15-53 38-61 61-116 116-251 251-538 538-1073 1073-1976 1976-3391 3391-5486 5486-8453"),
    # Clouds.
    ("aws_full", FULL_20),
    (
        {"preset": "aws_equal", "base": "10s", "cap": "2000s"},
        "5-10 10-20 20-40 40-80 80-160 160-320 320-640 640-1280 1000-2000 1000-2000",
    ),
    ("aws_decorrelated", "1-3 1-9 1-20 1-20 1-20 1-20 1-20 1-20 1-20 1-20"),
    ("aws_sdk", FULL_20),
    ("aws_sdk_2026", "0-0.05 0-0.1 0-0.2 0-0.4 0-0.8 0-1.6 0-3.2 0-6.4 0-12.8 0-20"),
    ("step_functions", DOUBLING),
    ({"preset": "step_functions", "jitter": "full"}, "0-1 0-2 0-4 0-8"),
    ("cloud_tasks", "0.1 0.2 0.4 0.8 1.6 3.2 6.4 12.8 25.6 51.2"),
    ({"preset": "cloud_tasks", "base": "10s", "doublings": 3, "cap": "300s"}, TO_300),
    ("kubernetes_job", "10 20 40 80 160 320 600 600"),
    ("kubernetes_crash_loop", "0 10 20 40 80 160 300 300 300"),
    (
        "azure_storage",
        "15-21 21-27 39-45 93-99 255-261 741-747 2199-2205 6573-6579 19695-19701 59061-59067",
    ),
    ("azure_core", "0 1.6 3.2 6.4 12.8 25.6 51.2 102.4 120 120"),
    ("temporal", "1 2 4 8 16 32 64 100 100 100"),
    # Notifications: phases of 0 s, the least, between, and the greatest wait.
    ("zaqar", "0 0 0 5 5 5 5 11.25 17.5 23.75 30 30 30 30"),
    ("zaqar_shipped", "0 0 0 5 5 5 5 10 15 20 25 30 30 30"),
    ("sns_managed", "0 0 0 1 1 1"),
    ("sns_customer", "10 10 10"),
    ("sns_http", "20 20 20"),
    ("standard_webhooks", "5 300 1800 7200 18000 36000 50400 72000 86400"),
    # Queues.
    ("oban", "17-18 19-20 23-25 31-34 47-51 79-86 143-157 271-298 527-579 1039-1142"),
    (
        "river",
        "0.9-1.1 14.4-17.6 72.9-89.1 230.4-281.6 562.5-687.5 1166-1426 2161-2641 3686-4506 5905-7217 9000-11000",
    ),
    (
        "rails",
        "3-3.15 18-20.4 83-95.15 258-296.4 627-720.8 1298-1492 2403-2763 4098-4712 6563-7547 10002-11502",
    ),
    ("delayed_job", "6 21 86 261 630 1301 2406 4101 6566 10005"),
    ("que", "4 19 84 259 628 1299 2404 4099 6564 10003"),
    ("bullmq", DOUBLING),
    (
        {"preset": "bullmq", "share": 0.5},
        "0.5-1 1-2 2-4 4-8 8-16 16-32 32-64 64-128 128-256 256-512",
    ),
    ("bull", "1 3 7 15 31 63 127 255 511 1023"),
    ({"preset": "bull", "base": "5s"}, "5 15 35 75"),
    ("graphile", "2.718 7.389 20.09 54.6 148.4 403.4 1097 2981 8103 22026 22026"),
    ("pg_boss", "1-2 2-4 4-8 8-16 16-32 32-64 64-128 128-256 256-512 512-1024"),
    ({"preset": "table", "waits": ["10s", "1m", "5m"]}, "10 60 300 300 300"),
    ("table", "10 60 300 300 300"),
    ("laravel", "1 5 10 10"),
    ("resque", "0 60 600 3600 10800 21600 21600"),
    ("symfony", "0.9-1.1 1.8-2.2 3.6-4.4"),
    ("jobrunr", "3 9 27 81 243 729 2187 6561 19683 59049"),
    ({"preset": "jobrunr", "seed": 2}, "2 4 8 16"),
    (
        "inngest",
        "15-45 30-60 60-90 120-150 300-330 600-630 1200-1230 2400-2430 3600-3630 7200-7230 7200-7230",
    ),
    # Python's queues.
    ("celery", "0-1 0-2 0-4 0-8 0-16 0-32 0-64 0-128 0-256 0-512 0-600"),
    ("celery_retry", "180 180 180"),
    (
        "dramatiq",
        "15-30 30-60 60-120 120-240 240-480 480-960 960-1920 1920-3840 3840-7680 7680-15360",
    ),
    ("rq", "10 30 60"),
    ({"preset": "rq", "limit": 5}, "10 10 10 30 60"),
    ({"preset": "rq", "limit": 2}, "30 60"),
    ("huey", "0 0 0"),
    ({"preset": "huey", "wait": "3s", "factor": 2}, "3 6 12 24"),
    ("taskiq", "5 5 5"),
    ({"preset": "taskiq", "exponent": True}, "5 10 15 20 25 30 35 40 45 50 55 60 60"),
    ("procrastinate", "6 15 36 93 258 747 2208 6585 19710 59079"),
    (
        "airflow",
        "300-599 600-1199 1200-2399 2400-4799 4800-9599 9600-19199 19200-38399 38400-76799 76800-86400 86400",
    ),
    ({"preset": "airflow", "base": "4m", "factor": 5}, "240-479 1200-2399 6000-11999 30000-59999 86400"),
    # Retriers.
    ("polly_constant", "2 2 2"),
    ("polly_linear", "2 4 6"),
    ("polly_exponential", "2 4 8"),
    ({"preset": "polly_linear", "jitter": {"around": 0.25}}, "1.5-2.5 3-5 4.5-7.5"),
    (
        {"preset": "polly_v2", "base": "1s"},
        "0-1.377 0-2.837 0-4.326 0-8.584 0-17.15 0-34.29 0-68.57 0-137.1 0-274.3 0-548.6",
    ),
    ("tenacity_fixed", "1 1 1"),
    ("tenacity_random", "0-1 0-1 0-1"),
    ({"preset": "tenacity_random", "low": "2s", "high": "7s"}, "2-7 2-7"),
    ("tenacity_incrementing", "0 100 200 300"),
    ("tenacity_exponential", DOUBLING),
    ("tenacity_random_exponential", "0-1 0-2 0-4 0-8 0-16 0-32 0-60 0-60 0-60 0-60"),
    ("tenacity_jitter", "1-2 2-3 4-5 8-9 16-17 32-33 64-65 128-129 256-257 512-513"),
    ("backoff_expo", "0-1 0-2 0-4 0-8 0-16 0-32 0-64 0-128 0-256 0-512"),
    ("stamina", "0.1-1.1 0.2-1.2 0.4-1.4 0.8-1.8 1.6-2.6 3.2-4.2 5 5 5 5"),
    (
        "cenkalti",
        "0.25-0.75 0.375-1.125 0.5625-1.688 0.8438-2.531 1.266-3.797 1.898-5.695 2.848-8.543 4.271-12.81 "
        "6.407-19.22 9.611-28.83",
    ),
    # Clients.
    (
        "grpc",
        "1 1.28-1.92 2.048-3.072 3.277-4.915 5.243-7.864 8.389-12.58 13.42-20.13 21.47-32.21 34.36-51.54 "
        "54.98-82.46",
    ),
    ("google_api_core", "0-1 0-2 0-4 0-8 0-16 0-32 0-60 0-60 0-60 0-60"),
    ("urllib3", "0 2 4 8 16 32 64 120 120 120"),
    ({"preset": "urllib3", "jitter_by": "1s"}, "0 2-3 4-5 8-9 16-17 32-33 64-65 120 120 120"),
    ("faktory_worker_node", "0.2 0.4 0.6 0.8 1 1.2 1.4 1.6 1.8 2 2.2 2.4 2.6 2.8 3 3.2 3.4 3.6 3.8 4 4"),
    ("faktory_worker_go", "1 30 60 120 240 480"),
]


@pytest.mark.parametrize(("given", "row"), ROWS, ids=str)
def test_the_first_retries(given: Any, row: str) -> None:
    assert misfits(given, row) == []


def test_every_preset_has_a_row() -> None:
    named = {given if isinstance(given, str) else given.get("preset") for given, _ in ROWS}
    assert named >= PRESETS.keys()


@pytest.mark.parametrize(
    ("given", "retries", "earliest", "latest"),
    [
        # 25 * 15 s and the sum of k^4 for 1 to 25 (2,153,645), or for 0 to 24 (1,763,020).
        ("zizq", None, 2_154_020, 2_163_770),
        ("zizq_from_zero", None, 1_763_395, 1_772_395),
        ("zizq_before_0_6_1", None, 2_528.645, 13_028.645),
        ("faktory", None, 1_763_395, 1_772_820),
        ("sidekiq", None, 1_763_395, 1_772_820),
        # Nine values above the lowest: 9 * 325, and 10 * 325 - 25.
        ("sidekiq7", None, 1_763_395, 1_766_320),
        ("sidekiq8", None, 1_763_395, 1_766_620),
        ("asynq", None, 1_763_395, 1_772_820),
        # 25 * 15 s and the sum of k^4 for 1 to 25; 30 * (2 + 3 + ... + 26) more.
        ("exq", None, 2_154_020, 2_164_520),
        ("hangfire", None, 15_483, 17_078),
        ("constant", 5, 1_500, 1_500),
        ("exponential", 5, 4_620, 4_620),
        # 5 * 15 + 979, and 30 * (2 + 3 + 4 + 5 + 6) more.
        ("sidekiq_chart", 5, 1_054, 1_654),
        ("buckets", 5, 225, 775),
        ({"preset": "buckets", "origin": 0}, 5, 100, 440),
        ("zzz_jobs", None, 43_425, 54_281.25),
        ({"preset": "zzz_jobs", "literal": True}, None, 47_010, 58_762.5),
        # 60 * (1 + 2 + ... + 25).
        ("linear", 25, 19_500, 19_500),
        ("aws_sdk", None, 0, 3),
        ("aws_sdk_2026", None, 0, 0.15),
        ("step_functions", None, 7, 7),
        ("kubernetes_job", None, 630, 630),
        ("azure_storage", None, 75, 93),
        ("azure_core", None, 4.8, 4.8),
        # As many as retry_total says: all of them together, which never happens.
        ({"preset": "azure_core", "limit": 10}, None, 443.2, 443.2),
        # 3 * 5 s, five times the mean of 5 s and 30 s, 3 * 30 s.
        ("zaqar", None, 192.5, 192.5),
        ("zaqar_shipped", None, 180, 180),
        ("sns_http", None, 60, 60),
        ("rails", None, 362, 415.1),
        ("delayed_job", None, 1_763_140, 1_763_140),
        ("pg_boss", None, 3, 6),
        ("resque", None, 36_660, 36_660),
        # 75 h 35 min 5 s, as its table says.
        ("standard_webhooks", None, 272_105, 272_105),
        ("symfony", None, 6.3, 7.7),
        # (3^11 - 3) / 2.
        ("jobrunr", None, 88_572, 88_572),
        ("inngest", None, 225, 345),
        ("celery", None, 0, 7),
        ("celery_retry", None, 540, 540),
        # A base of an hour meets the cap of ten minutes at the first retry.
        ({"preset": "celery", "base": "1h"}, None, 0, 1_800),
        ("rq", None, 100, 100),
        ("taskiq", None, 10, 10),
        ("dramatiq", None, 2_003_505, 4_007_010),
        ("polly_exponential", None, 14, 14),
        ("stamina", None, 21.3, 27.3),
        ("urllib3", None, 486, 486),
    ],
    ids=str,
)
def test_the_whole_window(given: Any, retries: int | None, earliest: float, latest: float) -> None:
    assert window(given, retries) == pytest.approx((earliest, latest), rel=1e-12)


@pytest.mark.parametrize(
    ("given", "unit", "earliest", "latest", "digits"),
    [
        ("zizq", DAY, 24.93, 25.04, 2),
        ("zizq_from_zero", DAY, 20.41, 20.51, 2),
        ("zizq_before_0_6_1", HOUR, 0.70, 3.62, 2),
        ("faktory", DAY, 20.410, 20.519, 3),
        ("sidekiq7", DAY, 20.410, 20.444, 3),
        ("sidekiq8", DAY, 20.410, 20.447, 3),
        ("hangfire", HOUR, 4.30, 4.74, 2),
        ("zzz_jobs", HOUR, 12.06, 15.08, 2),
        ({"preset": "zzz_jobs", "literal": True}, HOUR, 13.06, 16.32, 2),
        ("cloud_tasks", DAY, 3.53, 3.53, 2),
        ("sns_customer", HOUR, 6.79, 6.79, 2),
        ("oban", DAY, 12.14, 13.35, 2),
        ("river", DAY, 18.36, 22.45, 2),
        ("rails", 60, 6.0, 6.9, 1),
        ("delayed_job", DAY, 20.41, 20.41, 2),
        ("que", DAY, 2.06, 2.06, 2),
        ("dramatiq", DAY, 23.19, 46.38, 2),
        ("graphile", DAY, 3.97, 3.97, 2),
        ({"preset": "polly_v2", "base": "1s"}, 1, 2.84, 5.70, 2),
        ("urllib3", 60, 8.1, 8.1, 1),
    ],
    ids=str,
)
def test_the_window_that_is_published(
    given: Any, unit: int, earliest: float, latest: float, digits: int
) -> None:
    low, high = window(given)
    assert (round(low / unit, digits), round(high / unit, digits)) == (earliest, latest)


@pytest.mark.parametrize(
    ("given", "retries"),
    [
        ("zizq", 25), ("sidekiq", 25), ("faktory", 25), ("zzz_jobs", 19), ("oban", 19), ("river", 24),
        ("dramatiq", 20), ("celery", 3), ("hangfire", 10), ("rails", 4), ("cloud_tasks", 99), ("graphile", 24),
        ("kubernetes_job", 6), ("stamina", 9), ("aws_sdk", 2), ("polly_constant", 3), ("polly_linear", 3),
        ("polly_exponential", 3), ("polly_v2", 3), ("zaqar", 14), ("sns_managed", 100_015),
        ("sns_customer", 50), ("sns_http", 3), ("delayed_job", 24), ("que", 15), ("pg_boss", 2), ("temporal", None),
        ("step_functions", 3), ("grpc", None), ("cenkalti", None), ("azure_core", 3), ("azure_storage", 3),
        ("standard_webhooks", 9), ("symfony", 3), ("jobrunr", 10), ("inngest", 4),
        ({"preset": "aws_sdk_2026", "max_attempts": 4}, 3),
        ({"preset": "bull", "max_attempts": 3}, 2),
        ({"preset": "standard_webhooks", "waits": ["5s", "5m"]}, 2),
        ({"preset": "bullmq", "max_attempts": 5}, 4),
        ({"preset": "temporal", "max_attempts": 6}, 5),
        ({"preset": "oban", "max_attempts": 10}, 9),
        ({"preset": "rq", "max_attempts": 6}, 5),
        ({"preset": "procrastinate", "limit": 7}, 7),
        ({"preset": "faktory", "limit": 0, "on_exhausted": "discard"}, 0),
    ],
    ids=str,
)  # fmt: skip
def test_limits_are_counted_in_retries(given: Any, retries: int | None) -> None:
    assert Policy.from_json(given).retries == retries
