"""Settings: sources and their precedence, what is refused, and how values are shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from anew.config import (
    Loaded,
    Settings,
    declared,
    find_file,
    load_connect,
    load_settings,
    require_safe_bind,
)
from anew.errors import InvalidConfig, NotSupported


def load(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> Loaded:
    return load_settings(flags or {}, environ or {}, file)


def toml(directory: Path, text: str) -> Path:
    path = directory / "anew.toml"
    path.write_text(text)
    return path


def test_nothing_given_means_the_documented_defaults() -> None:
    settings = load().settings
    assert (settings.listen.host, settings.listen.port, settings.listen.token) == ("127.0.0.1", 7890, None)
    assert settings.listen.reported_version == "0.6.1"
    assert settings.store.root_dir == Path("anew-data")
    assert settings.store.commit == "full"
    assert settings.retry.document() == {"exponent": 4.0, "base_ms": 15_000, "jitter_ms": 30_000}
    assert settings.retry.limit == 25
    assert (settings.retention.completed_ms, settings.retention.dead_ms) == (0, 604_800_000)
    assert settings.timing.heartbeat_interval_ms == 3_000
    assert settings.timing.max_lease_ms == 43_200_000
    assert settings.timing.drain_timeout_ms == 25_000
    limits = settings.limits
    assert (limits.max_body, limits.max_job, limits.min_free_disk) == (67_108_864, 33_554_432, 536_870_912)
    assert (limits.max_bulk, limits.max_connections, limits.max_streams) == (10_000, 10_000, 2_000)
    assert (limits.max_stream_jobs, limits.global_in_flight) == (1_000, 1_024)
    assert (limits.stream_stall_timeout_ms, limits.header_timeout_ms) == (30_000, 10_000)


def test_all_origins_are_default_when_nothing_is_given() -> None:
    assert set(load().origins.values()) == {"default"}


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    file = toml(tmp_path, "[server]\nport = 1\nmax-bulk = 1\nmax-streams = 1\n")
    loaded = load({"port": "4"}, {"ANEW_PORT": "3", "ZIZQ_PORT": "2", "ANEW_MAX_BULK": "3"}, file)
    assert (loaded.settings.listen.port, loaded.origins["server.port"]) == (4, "--port")
    assert (loaded.settings.limits.max_bulk, loaded.origins["server.max-bulk"]) == (3, "ANEW_MAX_BULK")
    assert loaded.settings.limits.max_streams == 1
    assert loaded.origins["server.max-streams"] == f"{file}: [server] max-streams"


def test_anew_variable_beats_the_one_of_zizq() -> None:
    loaded = load(environ={"ZIZQ_PORT": "2", "ANEW_PORT": "3"})
    assert (loaded.settings.listen.port, loaded.origins["server.port"]) == (3, "ANEW_PORT")
    loaded = load(environ={"ZIZQ_PORT": "2"})
    assert (loaded.settings.listen.port, loaded.origins["server.port"]) == (2, "ZIZQ_PORT")


def test_variables_of_zizq_exist_only_for_what_zizq_has() -> None:
    assert load(environ={"ZIZQ_MAX_BULK": "3"}).settings.limits.max_bulk == 10_000


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load(environ={"ANEW_PORT": ""}).settings.listen.port == 7890


def test_zizq_96_durations_as_people_write_them() -> None:
    for text, ms in (
        ("500", 500),
        ("5s", 5_000),
        ("7d", 604_800_000),
        ("1h 30m", 5_400_000),
        ("12.5s", 12_500),
    ):
        assert load({"default-dead-job-retention": text}).settings.retention.dead_ms == ms


def test_sizes_as_people_write_them() -> None:
    for text, size in (("256MB", 256_000_000), ("64MiB", 67_108_864), ("4096", 4_096)):
        assert load({"max-body": text}).settings.limits.max_body == size


def test_the_file_takes_numbers_lists_tables_and_underscores(tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        """
        [server]
        heartbeat_interval = "500ms"
        header-timeout = 2000
        allowed-hosts = ["a.example", "B.example"]
        default-policy = {preset = "even", limit = 6}
        insecure = true
        [client]
        url = "http://queue.example:80/prefix/"
        """,
    )
    settings = load(file=file).settings
    assert settings.timing.heartbeat_interval_ms == 500
    assert settings.limits.header_timeout_ms == 2_000
    assert settings.listen.allowed_hosts == ("a.example", "b.example")
    assert settings.retry.document() == {"preset": "even", "limit": 6}
    assert settings.listen.insecure is True
    assert settings.connect.url == "http://queue.example:80/prefix"


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ({"port": "x"}, {}, ["--port", '"x"', "0 to 65535"]),
        ({"port": "65536"}, {}, ["--port", '"65536"']),
        ({}, {"ANEW_MAX_BULK": "0"}, ["ANEW_MAX_BULK", '"0"', "from 1"]),
        ({}, {"ZIZQ_HEARTBEAT_INTERVAL": "fast"}, ["ZIZQ_HEARTBEAT_INTERVAL", '"fast"', "duration"]),
        ({"heartbeat-interval": "0"}, {}, ["--heartbeat-interval", "at least 10ms"]),
        ({"default-backoff-base": "60d"}, {}, ["--default-backoff-base", "at most"]),
        ({"max-body": "12 parsec"}, {}, ["--max-body", "size"]),
        ({"host": "example.org"}, {}, ["--host", '"example.org"', "IP address"]),
        ({"commit": "never"}, {}, ["--commit", "full, relaxed"]),
        ({}, {"ANEW_INSECURE": "maybe"}, ["ANEW_INSECURE", '"maybe"', "true or false"]),
        ({"default-backoff-exponent": "nan"}, {}, ["--default-backoff-exponent", "a finite number"]),
        ({"default-policy": "{bad"}, {}, ["--default-policy", "JSON"]),
        ({"reported-version": "1"}, {}, ["--reported-version", "semantic version"]),
        ({"allowed-hosts": "a b"}, {}, ["--allowed-hosts", "host names"]),
        ({"client.url": "queue"}, {}, ["--url", '"queue"', "http://"]),
        ({"default-commit-mode": "sync"}, {}, ["--default-commit-mode", "buffered, fsync"]),
    ],
)
def test_errors_name_source_value_and_expectation(
    flags: dict[str, object], environ: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(flags, environ)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_errors_in_the_file_name_file_table_and_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match='anew\\.toml: \\[server\\] port: "x" is not valid'):
        load(file=toml(tmp_path, "[server]\nport = 'x'\n"))
    with pytest.raises(InvalidConfig, match=r"no setting 'prot'; did you mean 'port'\?"):
        load(file=toml(tmp_path, "[server]\nprot = 1\n"))
    with pytest.raises(
        InvalidConfig, match=r"'sever' is unknown; expected the tables \[client\] and \[server\]"
    ):
        load(file=toml(tmp_path, "[sever]\nport = 1\n"))
    with pytest.raises(InvalidConfig, match="cannot be read as TOML"):
        load(file=toml(tmp_path, "port = = 1\n"))


def test_a_secret_never_shows_in_an_error_or_a_repr() -> None:
    with pytest.raises(InvalidConfig) as caught:
        load({"token": "s3cret word"})
    assert "s3cret" not in str(caught.value)
    assert caught.value.value is None
    assert "s3cret" not in repr(load({"token": "s3cret"}).settings)


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    assert load({"token": f"@{tmp_path / 'token'}"}).settings.listen.token == "s3cret"
    with pytest.raises(InvalidConfig, match="--token: the file cannot be read"):
        load({"token": f"@{tmp_path / 'nowhere'}"})


@pytest.mark.parametrize("given", ["base", "exponent", "jitter"])
def test_base_exponent_and_jitter_come_as_three_or_not_at_all(given: str) -> None:
    with pytest.raises(InvalidConfig, match="go together"):
        load(environ={f"ZIZQ_DEFAULT_BACKOFF_{given.upper()}": "1"})


def test_the_three_numbers_make_the_default_policy() -> None:
    given = {"default-backoff-base": "1s", "default-backoff-exponent": "2", "default-backoff-jitter": "0"}
    retry = load(dict(given)).settings.retry
    assert retry.document() == {"exponent": 2.0, "base_ms": 1_000, "jitter_ms": 0}
    with pytest.raises(InvalidConfig, match="each gives the default policy"):
        load({**given, "default-policy": "even"})


def test_a_default_policy_brings_its_own_limit_unless_one_is_given() -> None:
    assert load({"default-policy": "even"}).settings.retry.limit is None
    assert load({"default-policy": "even", "default-retry-limit": "3"}).settings.retry.limit == 3
    assert load({"default-policy": "even"}).settings.retry.document() == "even"


def test_the_limit_of_interruptions_in_its_three_forms(tmp_path: Path) -> None:
    assert load().settings.retry.interruption_limit == 0
    file = toml(tmp_path, "[server]\ninterruption-limit = 5\n")
    assert load(file=file).settings.retry.interruption_limit == 5
    environ = {"ANEW_INTERRUPTION_LIMIT": "7"}
    assert load(environ=environ, file=file).settings.retry.interruption_limit == 7
    assert load({"interruption-limit": "10"}, environ, file).settings.retry.interruption_limit == 10
    for wrong in ("-1", "51", "many"):
        with pytest.raises(InvalidConfig, match="expected an integer from 0 to 50"):
            load({"interruption-limit": wrong})


def test_commit_modes_of_zizq_mean_full_unless_relaxed_was_asked_for() -> None:
    assert load(environ={"ZIZQ_DEFAULT_COMMIT_MODE": "buffered"}).settings.store.commit == "full"
    fsync = load(environ={"ZIZQ_DEFAULT_COMMIT_MODE": "fsync"})
    assert (fsync.settings.store.commit, fsync.origins["server.commit"]) == (
        "full",
        "ZIZQ_DEFAULT_COMMIT_MODE",
    )
    relaxed = load({"commit": "relaxed", "default-commit-mode": "buffered"})
    assert relaxed.settings.store.commit == "relaxed"
    with pytest.raises(InvalidConfig, match="contradicts --enqueue-commit-mode: 'fsync'"):
        load({"commit": "relaxed", "enqueue-commit-mode": "fsync"})


def test_licence_and_storage_tuning_are_ignored() -> None:
    given = dict.fromkeys(
        (
            "license-key",
            "license-key-check-interval",
            "cache-size",
            "enqueue-batch-size",
            "complete-batch-size",
        ),
        "whatever",
    )
    assert load(dict(given)).settings == Settings()
    assert load(environ={"ZIZQ_JOURNAL_SIZE": "64MiB", "ZIZQ_LICENSE_KEY": "@x"}).settings == Settings()


@pytest.mark.parametrize("prefix", ["", "admin-"])
def test_zizq_96_a_certificate_without_its_key_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidConfig, match=f"--{prefix}tls-cert: needs --{prefix}tls-key beside it"):
        load({f"{prefix}tls-cert": "cert.pem", "no-admin": True})
    with pytest.raises(InvalidConfig, match=f"--{prefix}tls-key: needs --{prefix}tls-cert beside it"):
        load({f"{prefix}tls-key": "key.pem"})
    with pytest.raises(InvalidConfig, match=f"needs --{prefix}tls-cert and --{prefix}tls-key beside it"):
        load({f"{prefix}tls-client-ca": "ca.pem"})


def test_tls_and_the_admin_listener_are_refused_as_not_in_this_build() -> None:
    with pytest.raises(NotSupported, match="--tls-cert: TLS is not in this build"):
        load({"tls-cert": "c", "tls-key": "k"})
    with pytest.raises(NotSupported, match="ZIZQ_ADMIN_PORT: the admin listener is not in this build"):
        load(environ={"ZIZQ_ADMIN_PORT": "1"})
    assert load({"no-admin": True}, {"ZIZQ_ADMIN_PORT": "1"}).settings == Settings()


def may_bind(**flags: object) -> bool:
    try:
        require_safe_bind(load(flags).settings)
    except InvalidConfig as error:
        return "set a token" not in str(error)
    return True


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5"])
def test_a_public_bind_needs_a_token_or_a_word(host: str) -> None:
    assert not may_bind(host=host)
    assert may_bind(host=host, token="t")
    assert may_bind(host=host, insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_a_loopback_bind_needs_neither(host: str) -> None:
    assert may_bind(host=host)


def test_a_client_is_not_stopped_by_what_is_wrong_with_a_server() -> None:
    connect = load_connect({}, {"ANEW_PORT": "x", "ZIZQ_TLS_CERT": "c", "ANEW_URL": "http://h:1/"}, None)
    assert (connect.url, connect.token, connect.timeout_ms) == ("http://h:1", None, 30_000)


def test_the_file_is_the_one_asked_for_or_the_one_that_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_file(None, {}) is None
    file = toml(tmp_path, "")
    assert find_file(None, {}) == Path("anew.toml")
    assert find_file(str(file), {}) == file
    assert find_file(None, {"ANEW_CONFIG": str(file)}) == file
    with pytest.raises(InvalidConfig, match='ANEW_CONFIG: "gone\\.toml" is not valid'):
        find_file(None, {"ANEW_CONFIG": "gone.toml"})


def test_shown_values_read_back_as_themselves() -> None:
    for group, field, setting in declared():
        value = getattr(getattr(Settings(), group), field)
        shown = setting.show(value)
        if shown != "-":
            assert setting.parse(shown, "test") == value, setting.name


def test_names_are_unique_and_every_field_of_the_tree_is_declared() -> None:
    keys = [(setting.table, setting.name) for _, _, setting in declared()]
    assert len(keys) == len(set(keys))
    fields = sum(
        len(dataclasses.fields(getattr(Settings(), group.name))) for group in dataclasses.fields(Settings)
    )
    assert len(keys) == fields
