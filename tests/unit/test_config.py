"""Settings: sources and their precedence, what is refused, and how values are shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from anew.config import (
    Admin,
    Loaded,
    Settings,
    declared,
    find_file,
    fwp_url,
    load_connect,
    load_settings,
    require_safe_bind,
)
from anew.errors import InvalidConfig


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
        InvalidConfig, match=r"'sever' is unknown; expected the tables \[client\] and \[fwp\] and \[server\]"
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


@pytest.mark.parametrize("prefix", ["", "fwp-", "admin-"])
def test_zizq_96_a_certificate_without_its_key_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidConfig, match=f"--{prefix}tls-cert: needs --{prefix}tls-key beside it"):
        load({f"{prefix}tls-cert": "cert.pem", "no-admin": True})
    with pytest.raises(InvalidConfig, match=f"--{prefix}tls-key: needs --{prefix}tls-cert beside it"):
        load({f"{prefix}tls-key": "key.pem"})
    with pytest.raises(InvalidConfig, match=f"needs --{prefix}tls-cert and --{prefix}tls-key beside it"):
        load({f"{prefix}tls-client-ca": "ca.pem"})
    with pytest.raises(InvalidConfig, match=f"needs --{prefix}tls-key beside it"):
        load({f"{prefix}tls-client-ca": "ca.pem", f"{prefix}tls-cert": "cert.pem"})


def test_half_of_a_certificate_is_named_by_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"^ZIZQ_TLS_CERT: needs --tls-key beside it$"):
        load(environ={"ZIZQ_TLS_CERT": "cert.pem"})
    with pytest.raises(
        InvalidConfig, match=r"anew\.toml: \[server\] fwp-tls-key: needs --fwp-tls-cert beside it$"
    ):
        load_settings({}, {}, toml(tmp_path, '[server]\nfwp-tls-key = "k"\n'))


def test_a_certificate_may_come_from_several_places() -> None:
    listen = load(
        {"tls-cert": "flag.pem"},
        {"ANEW_TLS_KEY": "own.pem", "ZIZQ_TLS_KEY": "z.pem", "ZIZQ_TLS_CLIENT_CA": "ca"},
    ).settings.listen
    assert (listen.tls_cert, listen.tls_key, listen.tls_client_ca) == (
        Path("flag.pem"),
        Path("own.pem"),
        Path("ca"),
    )
    assert (listen.tls_min, load({"tls-min": "1.3"}).settings.listen.tls_min) == ("1.2", "1.3")
    with pytest.raises(InvalidConfig, match=r'--tls-min: "1\.1" is not valid; expected one of 1\.2, 1\.3'):
        load({"tls-min": "1.1"})


def test_the_admin_listener_is_set_by_flags_variables_and_the_file(tmp_path: Path) -> None:
    assert load().settings.admin == Admin(off=False, host="127.0.0.1", port=8901)
    assert load(environ={"ZIZQ_ADMIN_PORT": "1", "ZIZQ_ADMIN_HOST": "::1"}).settings.admin == Admin(
        host="::1", port=1
    )
    assert load(environ={"ANEW_NO_ADMIN": "true"}).settings.admin.off
    file = tmp_path / "anew.toml"
    file.write_text("[server]\nadmin-port = 0\n")
    assert load(file=file).settings.admin.port == 0
    with pytest.raises(
        InvalidConfig, match='--admin-port: "70000" is not valid; expected an integer from 0 to 65535'
    ):
        load({"admin-port": "70000"})


def test_commands_find_the_admin_listener_of_the_server_that_these_settings_would_start() -> None:
    assert load_connect({}, {}, None).admin_url == "http://127.0.0.1:8901"
    assert load_connect({}, {"ANEW_ADMIN_PORT": "9"}, None).admin_url == "http://127.0.0.1:9"
    assert load_connect({}, {"ZIZQ_ADMIN_URL": "https://q.example"}, None).admin_url == "https://q.example"
    loaded = load({"admin-port": "9"})
    assert loaded.settings.connect.admin_url == "http://127.0.0.1:9"
    assert loaded.origins["client.admin-url"] == "the server's address"
    assert load().settings.connect.url == "http://127.0.0.1:7890"


def test_an_admin_listener_beyond_loopback_needs_tls_and_a_token() -> None:
    public = {"admin_host": "0.0.0.0"}
    pair = {f"admin_{name}": value for name, value in PAIR.items()}
    said = refused_bind(**public)
    assert said.startswith("--admin-host 0.0.0.0: others could reach this server")
    assert "set a token" in said
    assert "for --admin-tls-cert and --admin-tls-key" in refused_bind(token="t", **public)
    assert "set a token" in refused_bind(**public, **pair)
    for more in ({"token": "t"}, {"tokens_file": "tokens"}, {"admin_tls_client_ca": "ca.pem"}):
        assert not refused_bind(**public, **pair, **more)
    assert not refused_bind(host="0.0.0.0", tokens_file="tokens", **PAIR)
    assert not refused_bind(insecure=True, **public)
    assert not refused_bind(no_admin=True, **public)


def refused_bind(**flags: object) -> str:
    """What is said of a bind that is refused; "" of one that is not."""
    try:
        require_safe_bind(load({name.replace("_", "-"): value for name, value in flags.items()}).settings)
    except InvalidConfig as error:
        return str(error)
    return ""


PAIR = {"tls_cert": "cert.pem", "tls_key": "key.pem"}
FWP_PAIR = {f"fwp_{name}": value for name, value in PAIR.items()}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5"])
def test_reliability_51_a_public_bind_needs_authentication_and_tls_or_a_word(host: str) -> None:
    neither = refused_bind(host=host)
    assert neither.startswith(
        f"--host {host}: others could reach this server, which asks nobody who they are and "
    )
    assert (
        "set a token (ANEW_TOKEN or --token @file) and give it a certificate (anew tls init makes one"
        in neither
    )
    assert neither.endswith(
        "say --insecure behind a proxy that ends TLS, or where the network itself is closed"
    )
    no_tls = refused_bind(host=host, token="t")
    assert "which encrypts nothing; give it a certificate (anew tls init" in no_tls
    assert "set a token" not in no_tls
    no_token = refused_bind(host=host, **PAIR)
    assert "which asks nobody who they are; set a token" in no_token
    assert "anew tls init" not in no_token
    assert not refused_bind(host=host, token="t", **PAIR)
    assert not refused_bind(host=host, tls_client_ca="ca.pem", **PAIR)
    assert not refused_bind(host=host, insecure=True)


def test_reliability_51_holds_for_the_protocol_of_faktory_by_itself() -> None:
    public = {"fwp_host": "0.0.0.0"}
    assert "--fwp-host 0.0.0.0: " in refused_bind(token="t", **public, **PAIR)
    assert "set a password (FAKTORY_PASSWORD" in refused_bind(token="t", **public, **FWP_PAIR)
    assert "for --fwp-tls-cert and --fwp-tls-key" in refused_bind(fwp_password="p", **public, **PAIR)
    assert not refused_bind(fwp_password="p", **public, **FWP_PAIR)
    assert not refused_bind(fwp_tls_client_ca="ca.pem", **public, **FWP_PAIR)
    assert not refused_bind(insecure=True, **public)
    assert not refused_bind(no_fwp=True, **public)


def test_reliability_51_holds_for_faktorys_web_port_too() -> None:
    public = {"fwp_web_host": "0.0.0.0", "fwp_web_port": "7420"}
    assert refused_bind(**public).startswith(
        "--fwp-web-host 0.0.0.0: others could reach this server, which asks nobody"
    )
    assert "for --fwp-tls-cert and --fwp-tls-key" in refused_bind(fwp_password="p", **public)
    # A browser has no certificate: it is not asked for one, so that protects nothing here.
    assert "set a password" in refused_bind(fwp_tls_client_ca="ca.pem", **public, **FWP_PAIR)
    assert not refused_bind(fwp_password="p", **public, **FWP_PAIR)
    assert not refused_bind(fwp_web_password="p", **public, **FWP_PAIR)
    assert not refused_bind(fwp_web_host="0.0.0.0")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_a_loopback_bind_needs_neither(host: str) -> None:
    assert not refused_bind(host=host)


def test_a_client_is_not_stopped_by_what_is_wrong_with_a_server() -> None:
    connect = load_connect({}, {"ANEW_PORT": "x", "ZIZQ_TLS_CERT": "c", "ANEW_URL": "http://h:1/"}, None)
    assert (connect.url, connect.token, connect.timeout_ms) == ("http://h:1", None, 30_000)


@pytest.mark.parametrize(
    ("text", "environ", "http", "fwp"),
    [
        ("", {}, "127.0.0.1:7890", "127.0.0.1:7419"),
        ("[server]\nport = 8000\nfwp-port = 8001\n", {}, "127.0.0.1:8000", "127.0.0.1:8001"),
        ("[server]\nport = 8000\n", {"ANEW_PORT": "9000", "ANEW_FWP_PORT": "9001"}, "127.0.0.1:9000", "127.0.0.1:9001"),
        ('[server]\nhost = "0.0.0.0"\nfwp-host = "::"\n', {}, "127.0.0.1:7890", "[::1]:7419"),
        ('[server]\nhost = "10.0.0.7"\nport = 0\nfwp-host = "::1"\n', {}, "10.0.0.7:7890", "[::1]:7419"),
        ('[server]\nport = "many"\n', {}, "127.0.0.1:7890", "127.0.0.1:7419"),
    ],
)  # fmt: skip
def test_without_an_address_clients_go_to_the_server_that_would_start_here(
    tmp_path: Path, text: str, environ: dict[str, str], http: str, fwp: str
) -> None:
    file = toml(tmp_path, text)
    assert load_connect({}, environ, file).url == f"http://{http}"
    assert fwp_url(environ, file) == f"tcp://{fwp}"
    secure = environ | {"ANEW_TLS_CERT": "c", "ANEW_FWP_TLS_CERT": "c"}
    assert load_connect({}, secure, file).url == f"https://{http}"
    assert fwp_url(secure, file) == f"tcp+tls://{fwp}"


def test_a_servers_settings_say_that_too(tmp_path: Path) -> None:
    loaded = load_settings({"port": 9000}, {}, toml(tmp_path, '[server]\nhost = "0.0.0.0"\n'))
    assert loaded.settings.connect.url == "http://127.0.0.1:9000"
    assert loaded.origins["client.url"] == "the server's address"


def test_an_address_that_is_given_goes_before_the_servers_own(tmp_path: Path) -> None:
    file = toml(tmp_path, '[server]\nport = 8000\n[client]\nurl = "http://far:1"\n')
    assert load_connect({}, {}, file).url == "http://far:1"
    assert load_connect({"client.url": "http://flag:2"}, {}, file).url == "http://flag:2"


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


# -- the Faktory Work Protocol, and Faktory's own settings


def faktory(directory: Path, **files: str) -> dict[str, object]:
    """The flag that names a directory of Faktory's settings, with these files in its ``conf.d``."""
    (directory / "conf.d").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / "conf.d" / f"{name}.toml").write_text(text)
    return {"faktory-dir": str(directory)}


def test_the_faktory_protocol_is_spoken_on_loopback_by_default() -> None:
    fwp = load().settings.fwp
    assert (fwp.off, fwp.host, fwp.port, fwp.password) == (False, "127.0.0.1", 7419, None)


def test_a_binding_of_faktorys_counts_after_everything_of_ours(tmp_path: Path) -> None:
    flags = faktory(tmp_path, a='[faktory]\nbinding = "10.0.0.5:7420"\n[web]\nbinding = ":80"\nodd = 1\n')
    loaded = load(flags)
    assert (loaded.settings.fwp.host, loaded.settings.fwp.port) == ("10.0.0.5", 7420)
    assert loaded.origins["server.fwp-port"] == f"{tmp_path}/conf.d/a.toml: [faktory] binding"
    loaded = load(flags, {"ANEW_FWP_PORT": "9"})
    assert (loaded.settings.fwp.host, loaded.settings.fwp.port) == ("10.0.0.5", 9)
    assert loaded.origins["server.fwp-port"] == "ANEW_FWP_PORT"
    assert load(flags | {"fwp-host": "::1"}).settings.fwp.host == "::1"


@pytest.mark.parametrize(
    ("binding", "host"),
    [(":7419", "0.0.0.0"), ("localhost:7419", "127.0.0.1"), ("[::1]:7419", "::1"), ("0.0.0.0:7419", "0.0.0.0")],
)  # fmt: skip
def test_bindings_as_faktory_writes_them(tmp_path: Path, binding: str, host: str) -> None:
    assert load(faktory(tmp_path, a=f'[faktory]\nbinding = "{binding}"\n')).settings.fwp.host == host


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[faktory]\nbinding = "7419"', ["[faktory] binding", '"7419"', "localhost:7419"]),
        ('[faktory]\nbinding = "queue.internal:7419"', ["[faktory] binding", "IP address"]),
        ("[faktory]\nbinding = 7419", ["[faktory] binding", "7419"]),
        ("faktory = 1", ["'faktory'", "a table"]),
        ("[faktory", ["a.toml", "cannot be read as TOML"]),
        ("[faktory]\npassword = 5", ["[faktory] password", "expected text"]),
        ("cron = 1", ["[[cron]]", "an array of tables"]),
        ("[[cron]]\n[cron.job]\ntype = 'x'", ["[[cron]][1].schedule", "is missing"]),
        ("[[cron]]\nschedule = '* * * * *'", ["[[cron]][1].job", "a table with a type"]),
        ("[[cron]]\nschedule = '* * * * *'\njob = {}", ["[[cron]][1].job.type", "is missing"]),
        ("[[cron]]\nschedule = '@daily'\njob = {type = 'x', args = 5}", ["[1].job.args", "an array"]),
        ("[[cron]]\nschedule = '@daily'\njob = {type = 'x', args = [2020-01-01]}", ["[1].job.args", "JSON"]),
        ("[[cron]]\nschedule = '@daily'\njob = {type = 'x', queue = 'a b'}", ["[1].job.queue", '"a b"']),
        ("[throttles]\nslow = 3", ["[throttles].slow", "a table"]),
        ("[throttles]\nslow = {timeout = 3}", ["[throttles].slow", "concurrency, worker"]),
        ("[throttles]\nslow = {worker = -1}", ["[throttles].slow.worker", "from 0"]),
        ("[throttles]\nslow = {worker = 1, timeout = 0}", ["[throttles].slow.timeout", "seconds"]),
        ("[throttles]\n'a b' = {worker = 1}", ['"a b"', "a queue"]),
    ],
)
def test_what_is_wrong_in_faktorys_files_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(faktory(tmp_path, a=text))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_faktorys_files_are_read_in_order_and_their_cron_adds_up(tmp_path: Path) -> None:
    flags = faktory(
        tmp_path,
        b="[[cron]]\nschedule = '0 3 * * *'\ntimezone = 'Europe/Berlin'\nodd = 1\n"
        "[cron.job]\ntype = 'B'\nqueue = 'low'\nretry = 3\nargs = [1]\nreserve_for = 60\n"
        "[cron.job.custom]\nregion = 'eu'\n",
        a="[[cron]]\nschedule = '* * * * *'\njob = {type = 'A'}\n"
        "[throttles]\nslow = {concurrency = 3, timeout = 45}\nreports = {worker = 2, timeout = 1.5}\n",
    )
    loaded = load(flags)
    cron = [(one.schedule, one.timezone, one.job) for one in loaded.settings.fwp_tables.cron]
    assert cron == [
        ("* * * * *", None, {"jobtype": "A", "args": []}),
        ("0 3 * * *", "Europe/Berlin", {"jobtype": "B", "queue": "low", "retry": 3, "args": [1],
                                        "reserve_for": 60, "custom": {"region": "eu"}}),
    ]  # fmt: skip
    assert [
        (one.queue, one.concurrency, one.worker, one.timeout_ms)
        for one in loaded.settings.fwp_tables.throttles
    ] == [("slow", 3, None, 45_000), ("reports", None, 2, 1_500)]
    assert loaded.origins["fwp.throttles"] == f"{tmp_path}/conf.d/a.toml: [throttles]"
    assert loaded.origins["fwp.cron"] == f"{tmp_path}/conf.d/a.toml: [[cron]]"


def test_a_table_may_stand_in_one_of_faktorys_files_only(tmp_path: Path) -> None:
    text = "[throttles]\nslow = {worker = 1}\n"
    with pytest.raises(InvalidConfig, match=r"b\.toml: \[throttles\]: stands in .*a\.toml"):
        load(faktory(tmp_path, a=text, b=text))


JOB = "[fwp.cron.job]\ntype = 'x'\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[fwp.cron]]\nschedule = '@daily'\ntimezoen = 'UTC'\n" + JOB,
         ['[fwp] cron[1].timezoen: "UTC" is not valid', "job, schedule, timezone"]),
        ("[[fwp.cron]]\nschedule = '@daily'\n" + JOB + "retires = 3\n",
         ["[fwp] cron[1].job.retires: 3 is not valid", "args, custom, jobtype, queue, reserve_for, retry, type"]),
        ("[fwp.throttles]\nslow = {worker = 1, timout = 3}\n",
         ["[fwp] throttles.slow.timout: 3 is not valid", "concurrency, timeout, worker"]),
    ],
)  # fmt: skip
def test_a_key_that_nothing_knows_is_refused_in_our_own_tables(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(InvalidConfig) as caught:
        load(file=file)
    assert all(word in str(caught.value) for word in [str(file), *words]), str(caught.value)


def test_a_key_that_nothing_knows_in_faktorys_files_is_passed_over_and_named(tmp_path: Path) -> None:
    text = "[[cron]]\nschedule = '@daily'\nodd = 1\n[cron.job]\ntype = 'x'\npriority = 9\n"
    loaded = load(faktory(tmp_path, a=text, b=text + "[throttles]\nslow = {worker = 1, burst = 2}\n"))
    a, b = (f"{tmp_path}/conf.d/{name}.toml: " for name in "ab")
    assert sorted(loaded.passed_over) == [
        f"{a}[[cron]][1].job.priority", f"{a}[[cron]][1].odd",
        f"{b}[[cron]][1].job.priority", f"{b}[[cron]][1].odd", f"{b}[throttles].slow.burst",
    ]  # fmt: skip
    assert [one.at for one in loaded.settings.fwp_tables.cron] == [f"{a}[[cron]][1]", f"{b}[[cron]][1]"]


def test_a_cron_entry_may_call_its_jobs_type_as_a_push_does(tmp_path: Path) -> None:
    file = toml(tmp_path, "[[fwp.cron]]\nschedule = '@daily'\njob = {jobtype = 'x'}\n")
    assert load(file=file).settings.fwp_tables.cron[0].job["jobtype"] == "x"


def test_a_throttle_may_do_without_a_time_out(tmp_path: Path) -> None:
    """Faktory insists on one; here a slot is free again without."""
    file = toml(tmp_path, "[fwp.throttles]\nslow = {concurrency = 3}\n")
    (throttle,) = load(file=file).settings.fwp_tables.throttles
    assert (throttle.concurrency, throttle.timeout_ms) == (3, None)


def test_our_own_file_has_cron_and_throttles_too_and_they_count_first(tmp_path: Path) -> None:
    flags = faktory(tmp_path / "etc", a="[throttles]\nslow = {worker = 1}\n")
    file = toml(tmp_path, "[fwp.throttles]\nfast = {concurrency = 9}\n")
    loaded = load(flags, file=file)
    assert [one.queue for one in loaded.settings.fwp_tables.throttles] == ["fast"]
    assert loaded.origins["fwp.throttles"] == f"{file}: [fwp] throttles"


def test_policies_by_queue_and_type_are_read_from_the_file(tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        "[[fwp.policies]]\nqueue = 'mail'\npolicy = 'even'\n"
        "[[fwp.policies]]\ntype = 'Sync'\npolicy = {preset = 'even', limit = 6}\n",
    )
    rules = load(file=file).settings.fwp_tables.policies
    assert [(rule.queue, rule.type, rule.policy) for rule in rules] == [
        ("mail", None, "even"),
        (None, "Sync", {"preset": "even", "limit": 6}),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policy = 'even'", ["policies[1]", "a queue, a type, or both"]),
        ("queue = 'a'", ["policies[1].policy", "a preset"]),
        ("queue = 'a b'\npolicy = 'even'", ["policies[1].queue", '"a b"']),
        ("type = 5\npolicy = 'even'", ["policies[1].type", "expected text"]),
        ("queues = 'a'\npolicy = 'even'", ["policies[1].queues", "no such key"]),
        ("queue = 'a'\npolicy = 'even'\n[[fwp.policies]]\nqueue = 'a'\npolicy = 'even'", ["policies[2]", "same jobs"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_policy_rule_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load(file=toml(tmp_path, f"[[fwp.policies]]\n{text}\n"))
    assert all(word in str(caught.value) for word in ["anew.toml: [fwp]", *words]), str(caught.value)


def test_tables_have_no_variables() -> None:
    assert load(environ={"ANEW_CRON": "[]", "ANEW_POLICIES": "x"}).settings == Settings()


def password_of(
    flags: dict[str, object], environ: dict[str, str] | None = None, file: Path | None = None
) -> tuple[str | None, str]:
    loaded = load(flags, environ, file)
    return loaded.settings.fwp.password, loaded.origins["server.fwp-password"]


def test_whose_password_wins(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(" from the file\n")
    theirs = faktory(tmp_path / "etc", a='[faktory]\npassword = "theirs"\n')
    assert password_of(theirs) == ("theirs", f"{tmp_path}/etc/conf.d/a.toml: [faktory] password")
    ours = toml(tmp_path, "[server]\nfwp-password = 'ours'\n")
    assert password_of(theirs, file=ours) == ("ours", f"{ours}: [server] fwp-password")
    environ = {"FAKTORY_PASSWORD": "variable"}
    assert password_of(theirs, environ, ours) == ("variable", "FAKTORY_PASSWORD")
    environ["ANEW_FWP_PASSWORD_FILE"] = str(secret)
    assert password_of(theirs, environ, ours) == ("from the file", "ANEW_FWP_PASSWORD_FILE")
    assert password_of(theirs | {"fwp-password": "flag"}, environ, ours) == ("flag", "--fwp-password")
    assert password_of(theirs | {"fwp-password-file": str(secret)}, environ, ours) == (
        "from the file",
        "--fwp-password-file",
    )


def test_fwp_92_a_password_that_begins_with_a_slash_is_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("\n  pass word \n")
    flags = faktory(tmp_path / "none")
    assert password_of(flags, {"FAKTORY_PASSWORD": str(secret)}) == ("pass word", "FAKTORY_PASSWORD")
    flags = faktory(tmp_path / "etc", a=f'[faktory]\npassword = "{secret}"\n')
    assert password_of(flags)[0] == "pass word"
    with pytest.raises(InvalidConfig, match="FAKTORY_PASSWORD: the file cannot be read"):
        password_of(flags, {"FAKTORY_PASSWORD": "/no/such/file"})
    secret.write_text("\n")
    with pytest.raises(InvalidConfig, match="is empty"):
        password_of(flags)


def test_a_faktory_password_that_is_set_and_empty_overrides_the_file(tmp_path: Path) -> None:
    flags = faktory(tmp_path, a='[faktory]\npassword = "theirs"\n')
    assert password_of(flags, {"FAKTORY_PASSWORD": ""}) == (None, "FAKTORY_PASSWORD")


def test_a_password_beside_its_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="--fwp-password contradicts --fwp-password-file"):
        load({"fwp-password": "a", "fwp-password-file": str(tmp_path)})


def test_a_password_of_the_protocol_is_never_shown() -> None:
    loaded = load(environ={"FAKTORY_PASSWORD": "s3cret word"})
    assert "s3cret" not in repr(loaded)
    assert "s3cret" not in repr(load({"fwp-password": "s3cret word"}))
    specs = {setting.name: setting for _, _, setting in declared()}
    assert specs["fwp-password"].show("s3cret") == "***"


def test_the_login_of_a_proxy_is_never_shown() -> None:
    loaded = load(environ={"ANEW_WEBHOOK_PROXY": "http://me:s3cret@proxy.corp:3128"})
    assert "s3cret" not in repr(loaded)
    (row,) = [row for row in loaded.shown() if row[0] == "server.webhook-proxy"]
    assert row == ("server.webhook-proxy", "http://proxy.corp:3128", "ANEW_WEBHOOK_PROXY")


def test_what_the_headers_of_a_delivery_policy_hold_is_never_shown() -> None:
    policy = '{"request": {"headers": {"Authorization": "Bearer s3cret"}, "timeout": "5s"}}'
    loaded = load(environ={"ANEW_DELIVERY_POLICY": policy})
    assert "s3cret" not in repr(loaded)
    (row,) = [row for row in loaded.shown() if row[0] == "server.delivery-policy"]
    assert row[1] == '{"request": {"headers": {"Authorization": "***"}, "timeout": "5s"}}'
    (row,) = [
        row for row in load({"delivery-policy": "s3cret {"}).shown() if row[0] == "server.delivery-policy"
    ]
    assert row[1] == "***"


def test_all_settings_are_shown_with_where_they_come_from() -> None:
    shown = {
        name: (value, origin) for name, value, origin in load({"port": "7"}, {"ANEW_TOKEN": "s3cret"}).shown()
    }
    assert shown["server.port"] == ("7", "--port")
    assert shown["server.token"] == ("***", "ANEW_TOKEN")
    assert shown["server.max-job"] == ("32MiB", "default")
    assert len(shown) == len(list(declared()))


def test_faktorys_web_binding_opens_the_web_port(tmp_path: Path) -> None:
    """Port 0 means none there; a flag comes first; the password may be a file."""
    flags = faktory(tmp_path, a='[web]\nbinding = "localhost:7420"\npassword = "secret"')
    fwp = load(flags, {}).settings.fwp
    assert (fwp.web_host, fwp.web_port, fwp.web_password) == ("127.0.0.1", 7420, "secret")
    fwp = load(flags | {"fwp-web-port": 0, "fwp-web-password": "other"}, {}).settings.fwp
    assert (fwp.web_port, fwp.web_password) == (0, "other")
    assert load(faktory(tmp_path, a='[web]\nbinding = ":0"'), {}).settings.fwp.web_port is None
    with pytest.raises(InvalidConfig, match=r"--fwp-web-host 0\.0\.0\.0: others could reach"):
        require_safe_bind(load(faktory(tmp_path, a='[web]\nbinding = ":7420"'), {}).settings)
    with pytest.raises(InvalidConfig, match="'web' is not valid; expected a table"):
        load(faktory(tmp_path, a="web = 7"), {})


def test_fwp_92_production_asks_for_a_password(tmp_path: Path) -> None:
    flags = faktory(tmp_path)
    environ = {"FAKTORY_ENV": "production"}
    with pytest.raises(InvalidConfig, match="FAKTORY_ENV=production: there is no password"):
        load(flags, environ)
    assert load(flags, environ | {"FAKTORY_SKIP_PASSWORD": "1"}).settings.fwp.password is None
    assert load(flags | {"insecure": True}, environ).settings.fwp.password is None
    assert load(flags | {"no-fwp": True}, environ).settings.fwp.off
    (tmp_path / "password").write_text("kept\n")
    assert password_of(flags, environ) == ("kept", str(tmp_path / "password"))
    assert password_of(flags, {"FAKTORY_ENV": "development"})[0] is None
    with pytest.raises(InvalidConfig, match='FAKTORY_ENV: "test" is not valid'):
        load(flags, {"FAKTORY_ENV": "test"})


def test_faktorys_directory_is_the_one_that_its_environment_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, home = tmp_path / "etc", tmp_path / "home"
    monkeypatch.setattr("anew.config.faktory.SYSTEM", system)
    faktory(system, a="[faktory]\nbinding = 'localhost:1'\n")
    environ = {"HOME": str(home)}
    assert load({}, environ).settings.fwp.port == 1
    faktory(home / ".faktory", a="[faktory]\nbinding = 'localhost:2'\n")
    assert load({}, environ).settings.fwp.port == 2
    assert load({}, environ | {"FAKTORY_ENV": "development"}).settings.fwp.port == 2
    skipped = {"FAKTORY_ENV": "staging", "FAKTORY_SKIP_PASSWORD": "yes"}
    assert load({}, environ | skipped).settings.fwp.port == 1


def test_without_the_protocol_faktorys_files_are_not_read(tmp_path: Path) -> None:
    assert load(faktory(tmp_path, a="[faktory") | {"no-fwp": True}).settings.fwp.off


def test_fwp_21_both_pem_files_of_faktorys_directory_are_its_certificate(tmp_path: Path) -> None:
    flags = faktory(tmp_path)
    cert, key = tmp_path / "public.cert.pem", tmp_path / "private.key.pem"
    cert.write_text("c")
    assert load(flags).settings.fwp.tls_cert is None
    key.write_text("k")
    found = load(flags)
    assert (found.settings.fwp.tls_cert, found.settings.fwp.tls_key) == (cert, key)
    assert found.origins["server.fwp-tls-key"] == str(key)
    assert found.settings.listen.tls_cert is None
    own = load(flags | {"fwp-tls-cert": "c", "fwp-tls-key": "k"}).settings.fwp
    assert (own.tls_cert, own.tls_key) == (Path("c"), Path("k"))
    with pytest.raises(InvalidConfig, match="--fwp-tls-cert: needs --fwp-tls-key beside it"):
        load(flags | {"fwp-tls-cert": "c"})
    assert load(flags | {"fwp-tls-client-ca": "ca"}).settings.fwp.tls_client_ca == Path("ca")
    cert.unlink()
    assert load(flags).settings.fwp.tls_cert is None


def test_fwp_21_certificates_alone_make_a_directory_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anew.config.faktory.SYSTEM", tmp_path / "etc")
    own = tmp_path / ".faktory"
    own.mkdir()
    for name in ("public.cert.pem", "private.key.pem"):
        (own / name).write_text("x")
    assert load({}, {"HOME": str(tmp_path)}).settings.fwp.tls_cert == own / "public.cert.pem"


def test_a_directory_of_faktorys_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"--faktory-dir: .* is not valid; expected a directory"):
        load({"faktory-dir": str(tmp_path / "gone")})


def test_a_directory_that_cannot_be_looked_at_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is longer than a name may be: to look at it fails as it does where nobody may enter, for root too."""
    beyond = tmp_path / ("x" * 300)
    with pytest.raises(InvalidConfig, match="expected a directory"):
        load({"faktory-dir": str(beyond)})
    monkeypatch.setattr("anew.config.faktory.SYSTEM", beyond)
    with pytest.raises(InvalidConfig, match=r"conf\.d: cannot be read: .* name another directory"):
        load()
    assert load({"no-fwp": True}).settings.fwp.off


def test_a_path_of_a_password_that_no_system_takes_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="the file cannot be read"):
        load(faktory(tmp_path, a='[faktory]\npassword = "/\\u0000"\n'))
