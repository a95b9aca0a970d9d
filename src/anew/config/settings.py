"""The tree of settings: every setting with its default, its bounds and its effect."""

# The declarations below are a table; one line per argument would hide it.
# fmt: off

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from anew.config.setting import SECRETS, SettingSpec, ValueKind
from anew.config.tables import CronTable, PolicyRule, ThrottleTable
from anew.units import DAY_MS, HOUR_MS, SECOND_MS

_MIB: Final = 1 << 20
_U32_MAX: Final = 2**32 - 1


def _of(default: Any, name: str, kind: ValueKind, help_text: str, **rest: Any) -> Any:
    """Declare a field of the tree; `Any` because the field's own annotation says the type."""
    setting = SettingSpec(name=name, kind=kind, help=help_text, **rest)
    return field(default=default, repr=kind not in SECRETS, metadata={"setting": setting})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where the server listens, and for whom."""

    host: str = _of("127.0.0.1", "host", "host",
        "Address to bind, an IP literal or localhost; beyond loopback it needs TLS and a token, or --insecure.", zizq=True)
    port: int = _of(7890, "port", "integer", "Port of the HTTP API; 0 takes a free one.",
                    high=65535, zizq=True)
    token: str | None = _of(None, "token", "secret",
        "Bearer token that every request must carry; @path reads it from a file. Prefer ANEW_TOKEN or a "
        "file: other users of the machine can read flags.")
    tokens_file: Path | None = _of(None, "tokens-file", "path",  # noqa: RUF009 it gives a field, as all do
        "File of more tokens, each with its roles (admin, read, producer, worker), which `anew token new` writes. A request "
        "without one of these tokens, or that of --token, is refused. Read again at SIGHUP; nobody but its "
        "owner may write it, nor all read it.")
    tls_cert: Path | None = _of(None, "tls-cert", "path",  # noqa: RUF009 it gives a field, as all do
        "Certificate of the HTTP port, with those that lead up to its authority (PEM): it speaks TLS, and nothing else. "
        "`anew tls init` makes one.", zizq=True)
    tls_key: Path | None = _of(None, "tls-key", "path",  # noqa: RUF009 it gives a field, as all do
        "Its private key, without a password (PEM). Other users of the machine must not be able to read it.", zizq=True)
    tls_client_ca: Path | None = _of(None, "tls-client-ca", "path",  # noqa: RUF009 it gives a field, as all do
        "Authorities of clients (PEM): who brings no certificate of theirs is not let in.", zizq=True)
    tls_min: Literal["1.2", "1.3"] = _of("1.2", "tls-min", "choice", "Oldest version of TLS that is spoken, on every port.",
        choices=("1.2", "1.3"))
    insecure: bool = _of(False, "insecure", "switch",
        "Allow a bind beyond loopback without TLS, or without a token or password: for a proxy that ends TLS, or a network "
        "that is closed itself. Whoever reaches the port may read what is said, and without a token owns the queue.")
    allowed_hosts: tuple[str, ...] = _of((), "allowed-hosts", "names",
        "Comma list of names that requests may address (Host header) besides the loopback names. With --tls-cert and without "
        "this list any name may be addressed: browsers hold to those of the certificate.")
    allow_origin: tuple[str, ...] = _of((), "allow-origin", "origins",
        "Comma list of origins of other sites whose pages may use this server, as browsers write them; may be given "
        "again. All others are refused.")
    reported_version: str = _of("0.6.1", "reported-version", "version",
        "Version that GET /version gives; some clients of Zizq compare it with their own.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """The admin listener: backups, compaction, and the live view of the queues."""

    off: bool = _of(False, "no-admin", "switch", "Do not listen for administration.", zizq=True)
    host: str = _of("127.0.0.1", "admin-host", "host",
        "Address to bind for it, an IP literal or localhost; beyond loopback it needs TLS and a token, or --insecure.", zizq=True)
    port: int = _of(8901, "admin-port", "integer", "Port of the admin listener; 0 takes a free one.",
                    high=65535, zizq=True)
    tls_cert: Path | None = _of(None, "admin-tls-cert", "path",  # noqa: RUF009 it gives a field, as all do
        "Certificate of its port (PEM), which then speaks TLS and nothing else.", zizq=True)
    tls_key: Path | None = _of(None, "admin-tls-key", "path",  # noqa: RUF009 it gives a field, as all do
        "Its private key, without a password (PEM).", zizq=True)
    tls_client_ca: Path | None = _of(None, "admin-tls-client-ca", "path",  # noqa: RUF009 it gives a field, as all do
        "Authorities of clients (PEM): who brings no certificate of theirs is not let in.", zizq=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fwp:
    """The Faktory Work Protocol: where it is spoken, and where it follows Faktory or is safer."""

    off: bool = _of(False, "no-fwp", "switch", "Do not speak the Faktory Work Protocol.")
    host: str = _of("127.0.0.1", "fwp-host", "host",
        "Address to bind for it, an IP literal or localhost; beyond loopback it needs TLS and a password, or --insecure.")
    port: int = _of(7419, "fwp-port", "integer", "Port of the Faktory Work Protocol; 0 takes a free one.", high=65535)
    web_host: str = _of("127.0.0.1", "fwp-web-host", "host",
        "Address to bind for Faktory's web port, an IP literal or localhost.")
    web_port: int | None = _of(None, "fwp-web-port", "integer",
        "Port at which the dashboard stands under Faktory's paths (/busy, /retries, /stats, /health), such as 7420; 0 takes a free "
        "one. Default: none.", high=65535)
    web_password: str | None = _of(None, "fwp-web-password", "password",
        "Password that browsers must know there, with any name; @path reads it from a file. Default: that of --fwp-password.")
    password: str | None = _of(None, "fwp-password", "password",
        "Password that workers and producers of the Faktory Work Protocol must know; @path reads it from a file. Prefer "
        "FAKTORY_PASSWORD or a file: other users of the machine can read flags.")
    password_file: Path | None = _of(None, "fwp-password-file", "path",  # noqa: RUF009 it gives a field, as all do
        "File that holds that password.")
    tls_cert: Path | None = _of(None, "fwp-tls-cert", "path",  # noqa: RUF009 it gives a field, as all do
        "Certificate of its port and of --fwp-web-port (PEM): both then speak TLS alone. Default: public.cert.pem of "
        "--faktory-dir, if private.key.pem is there too.")
    tls_key: Path | None = _of(None, "fwp-tls-key", "path",  # noqa: RUF009 it gives a field, as all do
        "Its private key, without a password (PEM).")
    tls_client_ca: Path | None = _of(None, "fwp-tls-client-ca", "path",  # noqa: RUF009 it gives a field, as all do
        "Authorities of clients (PEM): who brings no certificate of theirs is not let in.")
    faktory_dir: Path | None = _of(None, "faktory-dir", "path",  # noqa: RUF009 it gives a field, as all do
        "Directory of Faktory's own settings (conf.d/*.toml, password, public.cert.pem and private.key.pem), which count last. "
        "Default: what FAKTORY_ENV means; without it ~/.faktory if there are any, else /etc/faktory.")
    description: str = _of("Faktory Enterprise", "fwp-description", "text",
        "What INFO calls this server. Without the word Enterprise, batches, tracking, unique jobs and expiry are off, as in "
        "Faktory without a licence.")
    idempotent_push: bool = _of(False, "fwp-idempotent-push", "switch",
        "A PUSH whose jid belongs to a stored job, or to one completed in the last ten minutes, stores nothing: it is answered "
        "OK, or refused if its type or args differ. Off, it makes another job, as in Faktory.")
    max_line: int = _of(64 * _MIB, "fwp-max-line", "size", "Longest line of the Faktory Work Protocol.", low=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class FwpTables:
    """What holds for jobs of the Faktory Work Protocol and takes a table to say: only a file has it."""

    policies: tuple[PolicyRule, ...] = _of((), "policies", "policies",
        "Retry policies by queue and type, in place of Faktory's curve.", table="fwp")
    cron: tuple[CronTable, ...] = _of((), "cron", "cron",
        "Jobs that are pushed by the clock, as Faktory's [[cron]].", table="fwp")
    throttles: tuple[ThrottleTable, ...] = _of((), "throttles", "throttles",
        "How many jobs of a queue run at one time, as Faktory's [throttles].", table="fwp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where jobs are kept, and what a success reply promises."""

    root_dir: Path = _of(Path("anew-data"), "root-dir", "path",  # noqa: RUF009 it gives a field, as all do
        "Directory of all data, or a database file such as jobs.db; made if it is missing.", zizq=True)
    url: str | None = _of(None, "store", "database",
        "PostgreSQL database that holds all jobs, postgresql://USER@HOST/DATABASE, for any number of servers; @path reads it from "
        "a file. Without it they are in --root-dir, which else holds what belongs to this server alone.")
    commit: Literal["full", "relaxed"] = _of("full", "commit", "choice",
        "full: every change is on the disk before it is answered. relaxed: a power cut may lose the last "
        "moments; a crash of the server alone loses nothing either way.", choices=("full", "relaxed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """What jobs without a policy get.

    Attributes:
        policy: JSON value of a policy (an object or a preset's name); None means Zizq's curve with the three
            numbers.
        limit: Retries allowed; None means what the policy itself says.
        interruption_limit: Which interruption in a row ends a job; 0 means that none does.
    """

    policy: object = _of(None, "default-policy", "policy",
        "Retry policy of jobs that bring none: JSON, or a preset's name. Default: Zizq's curve with the "
        "three numbers below.")
    backoff_exponent: float = _of(4.0, "default-backoff-exponent", "number",
        "Zizq's curve: attempts ^ exponent, in seconds. These three backoff settings go together.",
        zizq=True)
    backoff_base_ms: int = _of(15 * SECOND_MS, "default-backoff-base", "duration",
        "Zizq's curve: added to every wait.", high=_U32_MAX, zizq=True)
    backoff_jitter_ms: int = _of(30 * SECOND_MS, "default-backoff-jitter", "duration",
        "Zizq's curve: up to this times the attempts is added at random.", high=_U32_MAX, zizq=True)
    limit: int | None = _of(25, "default-retry-limit", "integer",
        "Retries after the first run; 0 makes the first failure final. Beside --default-policy that "
        "policy's own limit counts, unless this is given.", high=_U32_MAX, zizq=True)
    interruption_limit: int = _of(0, "interruption-limit", "integer",
        "A job whose worker goes away with it so many times in a row (it crashed, lost its connection, or kept it "
        "past --max-lease) is dead; from the second time on it waits 2 s, 4 s ... 1 min. Counts all that the "
        "worker held, so prefetch little. 0 offers it again at once, for ever, as Zizq does; else 10 is a good "
        "number.", high=50)

    def document(self) -> object:
        """The default policy as a JSON value, apart from `limit`: the one given, or Zizq's three numbers."""
        if self.policy is not None:
            return self.policy
        return {
            "exponent": self.backoff_exponent,
            "base_ms": self.backoff_base_ms,
            "jitter_ms": self.backoff_jitter_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended jobs are kept, in milliseconds, unless the job says otherwise."""

    completed_ms: int = _of(0, "default-completed-job-retention", "duration",
        "How long completed jobs are kept; 0 removes them at once.", zizq=True)
    dead_ms: int = _of(7 * DAY_MS, "default-dead-job-retention", "duration",
        "How long dead jobs are kept; 0 removes them at once.", zizq=True)
    first_errors: int = _of(10, "error-records-first", "integer",
        "Error records that are kept of each job's first failures; of those between the first and the last only their "
        "number by error type is kept. 0 here and for the last keeps all.")
    last_errors: int = _of(90, "error-records-last", "integer",
        "Error records that are kept of each job's last failures; a job has one at least.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The server's own rhythms, in milliseconds."""

    heartbeat_interval_ms: int = _of(3 * SECOND_MS, "heartbeat-interval", "duration",
        "Interval of heartbeats on idle take streams. Clients give a silent stream up after 15 to 30 s.",
        low=10, zizq=True)
    reaper_interval_ms: int = _of(30 * SECOND_MS, "reaper-check-interval", "duration",
        "Interval at which ended jobs past their retention are removed.", low=10, zizq=True)
    max_lease_ms: int = _of(12 * HOUR_MS, "max-lease", "duration",
        "Longest time that one attempt may hold a job before it counts as lost.", low=1000)
    drain_timeout_ms: int = _of(25 * SECOND_MS, "drain-timeout", "duration",
        "Longest graceful stop after SIGTERM; a second signal stops at once.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of everything that a peer can make grow. Sizes in bytes, durations in milliseconds."""

    global_in_flight: int = _of(1024, "global-in-flight-limit", "integer",
        "Most jobs in flight over all connections; 0 means no limit.", short="-l", zizq=True)
    max_body: int = _of(64 * _MIB, "max-body", "size",
        "Largest request body; a larger one gets 413 before it is read.", low=1024)
    max_job: int = _of(32 * _MIB, "max-job", "size", "Largest single job as sent.", low=1024)
    max_bulk: int = _of(10_000, "max-bulk", "integer", "Most jobs in one bulk call.", low=1)
    max_connections: int = _of(10_000, "max-connections", "integer",
        "Most open connections; above it the longest idle one is closed, or a new one gets 503 if all are busy.", low=1)
    max_streams: int = _of(2_000, "max-streams", "integer", "Most open take streams.", low=1)
    max_stream_jobs: int = _of(1_000, "max-stream-jobs", "integer",
        "Most unacknowledged jobs of one take stream, whatever its prefetch.", low=1)
    stream_stall_timeout_ms: int = _of(30 * SECOND_MS, "stream-stall-timeout", "duration",
        "A peer that has bytes waiting and reads none for so long is cut off; its jobs return to the queue.",
        low=100)
    header_timeout_ms: int = _of(10 * SECOND_MS, "header-timeout", "duration",
        "Longest time from a request's first byte to the end of its head.", low=100)
    min_free_disk: int = _of(512 * _MIB, "min-free-disk", "size",
        "Below this much free space enqueues get 507; settling goes on. 0: only a disk that is full refuses.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Topics: who delivers to webhooks, which ones may be delivered to, and what they are asked."""

    deliverers: int = _of(1, "deliverers", "integer",
        "Processes that deliver to webhooks, which the server starts with the first subscription; 0: `anew deliver` does it.",
        high=64)
    slots: int = _of(200, "deliverer-slots", "integer", "Requests of one such process at one time.", low=1, high=10_000)
    policy: str | None = _of(None, "delivery-policy", "deliveries",
        "Delivery policy of topics and subscriptions that bring none, as JSON; see docs/webhooks.md.")
    confirmation: Literal["required", "optional", "off"] = _of("required", "webhook-confirmation", "choice",
        "required: an endpoint gets nothing before it has consented. optional: only what asks for a handshake is asked. "
        "off: nobody is.", choices=("required", "optional", "off"))
    public_url: str | None = _of(None, "public-url", "text",
        "Address under which receivers reach this server, for confirmations: https://hooks.example.org.")
    allow_http: bool = _of(False, "webhook-allow-http", "switch", "Deliver to http:// URLs too.")
    allow_cidrs: tuple[str, ...] = _of((), "webhook-allow-cidrs", "networks",
        "Comma list of networks that are delivered to though they are private or local, such as 10.1.0.0/16 or 127.0.0.1/32.")
    allow_hosts: tuple[str, ...] = _of((), "webhook-allow-hosts", "domains",
        "Comma list of names that are delivered to whatever they resolve to; *.corp.example is every name below.")
    egress_proxy: str | None = _of(None, "webhook-proxy", "proxy",
        "http://host:port of a proxy that makes all connections to webhooks (CONNECT), and resolves their names.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is logged, how, and where to."""

    format: Literal["auto", "pretty", "compact", "json"] = _of("auto", "log-format", "choice",
        "auto: pretty on a terminal, else compact.", choices=("auto", "pretty", "compact", "json"), zizq=True)
    level: Literal["trace", "debug", "info", "warn", "error"] = _of("info", "log-level", "choice",
        "Least level that is logged.", choices=("trace", "debug", "info", "warn", "error"), zizq=True)
    to_disk: bool = _of(False, "log-to-disk", "switch",
        "Log to files under ROOT_DIR/log instead of stdout.", zizq=True)
    dir: Path | None = _of(None, "log-dir", "path",  # noqa: RUF009 it gives a field, as all do
        "Directory of log files; implies --log-to-disk.", zizq=True)
    rotation: Literal["daily", "hourly", "never"] = _of("daily", "log-rotation", "choice",
        "When a new log file is begun.", choices=("daily", "hourly", "never"), zizq=True)
    max_size: int = _of(100_000_000, "log-max-size", "size",
        "Largest log file; at this size a new one is begun.", low=1024, zizq=True)
    max_files: int = _of(10, "log-max-files", "integer", "Log files kept.", low=1, zizq=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """How commands reach the server."""

    url: str = _of("http://127.0.0.1:7890", "url", "url",
        "Address of the server; may end in a path prefix.", table="client")
    admin_url: str = _of("http://127.0.0.1:8901", "admin-url", "url",
        "Address of the server's admin listener.", table="client", zizq=True)
    token: str | None = _of(None, "token", "secret",
        "Bearer token that requests carry; @path reads it from a file.", table="client")
    timeout_ms: int = _of(30 * SECOND_MS, "timeout", "duration",
        "Longest wait for an answer.", table="client", low=1)
    ca: Path | None = _of(None, "ca", "path",  # noqa: RUF009 it gives a field, as all do
        "File of certificates (PEM) to trust in place of the system's, for an https address.", table="client")
    cert: Path | None = _of(None, "cert", "path",  # noqa: RUF009 it gives a field, as all do
        "File of a client certificate (PEM), for a server that asks for one.", table="client")
    key: Path | None = _of(None, "key", "path",  # noqa: RUF009 it gives a field, as all do
        "File of its private key, without a password; not needed where it stands in the file of cert.",
        table="client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings; each module is handed the part that it needs."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    fwp: Fwp = Fwp()
    fwp_tables: FwpTables = FwpTables()
    store: Store = Store()
    retry: Retry = Retry()
    retention: Retention = Retention()
    timing: Timing = Timing()
    limits: Limits = Limits()
    webhooks: Webhooks = Webhooks()
    log: Log = Log()
    connect: Connect = Connect()


def declared() -> Iterator[tuple[str, str, SettingSpec]]:
    """Give every setting of the tree as (group, field, setting), in the order of the tree."""
    for group in dataclasses.fields(Settings):
        for item in dataclasses.fields(getattr(Settings(), group.name)):
            yield group.name, item.name, item.metadata["setting"]
