"""From settings to the parts of a server: the store, the engine's defaults, the limits of the edge, the logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from anew import logs
from anew.backoff import Policy
from anew.config import Loaded, Settings
from anew.engine.crontab import NewCron
from anew.errors import AnewError, InvalidConfig
from anew.http.api import ApiSettings
from anew.http.tokens import Tokens
from anew.jobs import Defaults, NewJob
from anew.jobs.limits import Throttle
from anew.net.seam import WireLimits
from anew.store.postgres import open_postgres
from anew.store.protocol import Store
from anew.store.sqlite import Places, open_sqlite
from anew.topics.guard import GuardSettings
from anew.topics.terms import TopicTerms, guard_of, terms_of
from anew.units import without_password
from anew.web.dashboard.server import About


def open_store(settings: Settings, *, serves: bool = True) -> Store:
    """Open the store that the settings name.

    Args:
        settings: Everything.
        serves: For a server, of which a file has one; else beside whoever has it open.

    Raises:
        StoreBusy: Another server holds it.
        NewerStore: A newer program wrote it.
        InvalidConfig: The directory, or the database, cannot be used.
        StoreFailed: The database cannot be reached.
    """
    relaxed = settings.store.commit == "relaxed"
    keep_first, keep_last = settings.retention.first_errors, settings.retention.last_errors
    if settings.store.url is not None:
        return open_postgres(settings.store.url, relaxed=relaxed, keep_first=keep_first, keep_last=keep_last)
    try:
        return open_sqlite(
            Path(settings.store.root_dir),
            relaxed=relaxed,
            background=serves,
            exclusive=serves,
            keep_first=keep_first,
            keep_last=keep_last,
        )
    except InvalidConfig as error:
        # The store does not know what its directory is called where people set it.
        raise InvalidConfig(f"--root-dir: {error}", field="root-dir", value=error.value) from error


def defaults_of(settings: Settings) -> Defaults:
    """Give what holds for jobs that do not set it."""
    policy = Policy.from_json(settings.retry.document())
    if settings.retry.limit is not None:
        policy = policy.with_limit(settings.retry.limit)
    return Defaults(
        policy=policy,
        completed_ms=settings.retention.completed_ms,
        dead_ms=settings.retention.dead_ms,
        interruption_limit=settings.retry.interruption_limit,
    )


def fwp_policies(settings: Settings) -> dict[tuple[str | None, str | None], msgspec.Raw]:
    """Give the policies of the Faktory Work Protocol's jobs, as JSON, by queue and type."""
    return {
        (rule.queue, rule.type): msgspec.Raw(msgspec.json.encode(rule.policy))
        for rule in settings.fwp_tables.policies
    }


def throttles_of(settings: Settings) -> dict[str, Throttle]:
    """Give the limits of queues."""
    return {
        table.queue: Throttle(
            concurrency=table.concurrency, per_worker=table.worker, timeout_ms=table.timeout_ms
        )
        for table in settings.fwp_tables.throttles
    }


def crons_of(settings: Settings, job_of: Callable[[Mapping[str, Any]], NewJob]) -> list[NewCron]:
    """Give the cron entries of Faktory's tables; what two have in common is told apart by a number.

    Args:
        settings: Where they stand.
        job_of: Gives the job of an entry's members.

    Raises:
        InvalidConfig: An entry's job is none.
    """
    entries: list[NewCron] = []
    names: Counter[str] = Counter()
    for table in settings.fwp_tables.cron:
        name = f"{table.job['jobtype']} {table.schedule}"
        names[name] += 1
        if names[name] > 1:
            name = f"{name} ({names[name]})"
        try:
            job = job_of(table.job)
        except AnewError as error:
            raise InvalidConfig(f"{table.at}.job: {error}", field="cron") from error
        entries.append(NewCron(name=name, expression=table.schedule, timezone=table.timezone, job=job))
    return entries


def api_settings(settings: Settings, *, secure: bool, tokens: Tokens | None = None) -> ApiSettings:
    """Give what the routes of one door need to know.

    Args:
        settings: Everything.
        secure: Whether clients speak TLS at this door.
        tokens: Where there is a file of them.
    """
    listen, limits = settings.listen, settings.limits
    hosts = {name.lower().encode() for name in listen.allowed_hosts} | {_bracketed(listen.host)}
    hosts.add(_bracketed(settings.admin.host))
    if public := urlsplit(settings.webhooks.public_url or "").hostname:  # receivers confirm under that name
        hosts.add(_bracketed(public))
    return ApiSettings(
        token=listen.token,
        tokens=tokens,
        # With TLS a browser knows by the certificate which names are ours: no other one can be bound to our address.
        allowed_hosts=None if secure and not listen.allowed_hosts else frozenset(hosts),
        secure=secure,
        allowed_origins=frozenset(origin.encode() for origin in listen.allow_origin),
        heartbeat_ms=settings.timing.heartbeat_interval_ms,
        max_job_bytes=limits.max_job,
        max_bulk=limits.max_bulk,
        max_streams=limits.max_streams,
        max_stream_jobs=limits.max_stream_jobs,
        version=listen.reported_version,
        commit=settings.store.commit,
    )


def tokens_of(settings: Settings) -> Tokens | None:
    """Read the file of tokens, where there is one.

    Raises:
        InvalidConfig: It cannot be used.
    """
    file = settings.listen.tokens_file
    return None if file is None else Tokens(file, settings.listen.token)


def wire_limits(settings: Settings) -> WireLimits:
    """Give what a peer may ask of the wires."""
    limits = settings.limits
    return WireLimits(
        max_body=limits.max_body,
        max_unfinished=16 * limits.max_body,
        max_connections=limits.max_connections,
        header_timeout_ms=limits.header_timeout_ms,
        stall_timeout_ms=limits.stream_stall_timeout_ms,
    )


def set_up_logs(settings: Settings) -> None:
    """Send logs where the settings say."""
    chosen = settings.log
    if not chosen.to_disk and chosen.dir is None:
        logs.set_up(chosen.format, chosen.level)
        return
    folder = chosen.dir or _data_directory(settings) / "log"
    handler = logs.rotating(folder, chosen.rotation, chosen.max_size, chosen.max_files)
    logs.set_up(chosen.format, chosen.level, handler=handler)


def _data_directory(settings: Settings) -> Path:
    """Give the folder of the store's file, which people may have named itself."""
    return Places.at(settings.store.root_dir).database.parent


def _bracketed(host: str) -> bytes:
    return f"[{host}]".encode() if ":" in host else host.encode()


def guard_settings(settings: Settings) -> GuardSettings:
    """Give which webhooks may be delivered to."""
    return guard_of(settings.webhooks)


def topic_terms(settings: Settings) -> TopicTerms:
    """Give what holds for topics.

    Raises:
        InvalidConfig: The delivery policy does not fit.
    """
    return terms_of(settings.webhooks, Places.at(Path(settings.store.root_dir)).webhook_key)


def about_of(loaded: Loaded) -> About:
    """Give what the page about the server says of its settings."""
    store = loaded.settings.store
    place = str(Places.at(store.root_dir).database) if store.url is None else without_password(store.url)
    return About(place, loaded.shown(), loaded.settings.limits.min_free_disk)
