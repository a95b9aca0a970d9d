"""The command line without a server: help, exit codes, what is offered."""

from __future__ import annotations

import importlib
import importlib.abc
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from anew import __version__
from anew.cli import main
from anew.cli.root import root, run
from anew.config import FOREIGN, declared


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in os.environ:
        if name.startswith(("ANEW_", "ZIZQ_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def commands(
    command: click.Command = root, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that lead to it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            following = command.get_command(context, name)
            assert following is not None
            yield from commands(following, (*path, name))
    else:
        yield path, command


ALL = dict(commands())


def test_the_commands() -> None:
    assert {" ".join(path) for path in ALL} == {
        "serve", "enqueue", "work", "worker", "jobs list", "jobs show", "jobs patch", "jobs replan", "jobs retry",
        "jobs cancel", "jobs delete",
        "queues list", "queues pause", "queues resume",
        "dead list", "dead retry", "policy convert", "policy explain", "policy lint", "policy list", "policy preview",
        "policy sample", "policy show", "config show", "tls init", "tls ca", "tls server-cert", "tls client-cert", "cron remove",
        "cron list", "cron next", "fwp info", "fwp ping", "health", "import faktory", "completion", "doctor", "backup", "restore",
        "compact", "top",
        "topic create", "topic list", "topic show", "topic set", "topic delete",
        "sub add", "sub list", "sub show", "sub set", "sub pause", "sub resume", "sub disable", "sub enable", "sub confirm",
        "sub secret", "sub test", "sub rotate-secret", "sub delete", "publish", "replay",
        "delivery list", "delivery show", "delivery attempts", "delivery redeliver", "delivery cancel", "delivery delete",
        "deliver", "lab chart", "lab compare", "lab fit", "lab open", "lab replay", "lab simulate", "listen",
        "token list", "token new",
    }  # fmt: skip


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_examples_in_its_help(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"anew {' '.join(path)}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize(
    "path",
    [path for path in ALL if path not in (("serve",), ("deliver",), ("lab", "open"), ("completion",))],
    ids=" ".join,
)
def test_every_command_answers_in_json_if_asked(path: tuple[str, ...]) -> None:
    assert any("--json" in parameter.opts for parameter in ALL[path].params)


@pytest.mark.parametrize("path", [("serve",), ("config", "show")], ids=" ".join)
def test_every_setting_of_the_server_is_an_option(path: tuple[str, ...]) -> None:
    offered = {name for parameter in ALL[path].params for name in parameter.opts}
    wanted = {f"--{setting.name}" for _, _, setting in declared() if setting.table == "server"}
    assert wanted | {f"--{name}" for name in FOREIGN} <= offered
    assert {"-l", "-k"} <= offered


@pytest.mark.parametrize("name", ["fwp", "dead", "jobs", "cron", "queues"])
def test_a_group_that_speaks_to_a_server_has_examples_in_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert f"  anew {name}" in capsys.readouterr().out.partition("Examples:")[2]


def test_no_subcommand_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"anew {__version__}\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nonsense"], 2, "expected one of: serve, enqueue, work"),
        (["enq", "greet"], 2, 'did you mean "enqueue"?'),
        (["--nonsense"], 2, "No such option '--nonsense'"),
        (["enqueue", "t"], 2, "--queue"),
        (["enqueue", "t", "-q", "q", "{bad"], 2, "is not JSON"),
        (["enqueue", "t", "-q", "q", "--policy", "nope"], 2, "nope"),
        (["enqueue", "t", "-q", "q", "--delay", "soon"], 2, "--delay"),
        (["enqueue", "t", "-q", "q", "--at", "soon"], 2, "--at"),
        (["enqueue", "t", "-q", "q", "--at", "2026-01-01", "--delay", "5m"], 2, "both say when"),
        (["enqueue", "t", "-q", "q", "@/no/such/file"], 2, "No such file"),
        (["enqueue", "t", "-q", "q", "--url", "nowhere"], 2, "--url"),
        (["jobs", "list", "--url", "http://127.0.0.1:9"], 3, "anew serve"),
        (["jobs", "list", "--url", "fwp://127.0.0.1:7419"], 2, "the Faktory protocol's is for: anew fwp"),
        (["fwp", "ping", "--url", "http://127.0.0.1:7890"], 2, "anew health asks an HTTP address"),
        (["health", "--token", "@/no/such/file"], 2, "cannot be read: no such file or directory\n"),
        (["jobs", "delete"], 2, "which jobs?"),
        (["jobs", "delete", "x", "--all"], 2, "which jobs?"),
        (["jobs", "list", "--queue", ""], 2, 'queue: ""'),
        (["dead", "retry"], 2, "which jobs?"),
        (["jobs", "patch", "--priority", "1"], 2, "filters such as --where-queue"),
        (["jobs", "patch", "--queue", "web", "--priority", "1"], 2, "filters such as --where-queue"),
        (["jobs", "patch", "x", "--all", "--priority", "1"], 2, "which jobs?"),
        (["jobs", "patch", "x"], 2, "which change?"),
        (["jobs", "patch", "x", "--retry-limit", "1", "--clear", "retry-limit"], 2, "--clear retry-limit"),
        (["jobs", "patch", "x", "--delay", "5m", "--ready-at", "2026-01-01"], 2, "both say when"),
        (["health", "--url", "http://127.0.0.1:9"], 3, "anew serve"),
        (["health", "--ca", "gone.pem", "--url", "https://127.0.0.1:9"], 2, 'ca: "gone.pem" cannot be used'),
        (["health", "--key", "gone.pem"], 2, "expected both"),
        (
            ["work", "-c", "0", "--", "cat"],
            2,
            '--concurrency: "0" is not valid; expected a number from 1 to 1,000',
        ),
        (["work", "-q", "a", "-c", "b=2", "--", "cat"], 2, '--concurrency: "b"'),
        (["work", "-c", "a=2,a=3", "--", "cat"], 2, '--concurrency: "a=2,a=3"'),
        (["work", "-c", "a=999,b=2", "--", "cat"], 2, "1,000 in all"),
        (["completion", "tcsh"], 2, "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (["policy", "explain", '{"preset": "nope"}'], 2, "nope"),
        (["policy", "explain", "{"], 2, "not JSON"),
        (["enqueue", "t", "-q", "q", "--policy", '{"limit":'], 2, "expected JSON or the name of a preset"),
        (["work", "--", "no-such-program-here"], 2, "no such program"),
        (["serve", "--port", "x"], 2, '--port: "x"'),
        (["serve", "--config", "gone.toml"], 2, "gone.toml"),
        (["serve", "--default-policy", "evn"], 2, '--default-policy: preset: "evn"'),
        (["config", "show", "--default-policy", "evn"], 2, '--default-policy: preset: "evn"'),
        (["serve", "--host", "0.0.0.0"], 5, "set a token"),
        (["serve", "--tls-cert", "c"], 2, "--tls-key"),
        (
            ["serve", "--tls-cert", "gone.pem", "--tls-key", "k"],
            2,
            '--tls-cert: "gone.pem" cannot be used (no such',
        ),
        (["tls", "ca", "--cn", ""], 2, '--cn: "" is not valid'),
        (["tls", "init", "--san", "a b"], 2, '--san: "a b" is not valid; expected a host name'),
        (["tls", "init", "--client", "../x"], 2, '"../x" is not valid as a client'),
        (["tls", "init", "--ca-cert", "x"], 2, "--ca-cert is given without --ca-key"),
        (["tls", "client-cert", "--name", "w"], 2, "--ca-cert: anew-data/tls/ca-cert.pem cannot be read"),
        (["serve", "--admin-tls-cert", "c"], 2, "--admin-tls-key"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_exit_codes_and_what_is_said(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert said in output.err


def test_a_destructive_act_is_not_done_where_nobody_can_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert run(["jobs", "delete", "some-id"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_policy_list_names_the_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "list", "--json"]) == 0
    names = {item["name"] for item in json.loads(capsys.readouterr().out)["presets"]}
    assert {"even", "zizq", "faktory", "sidekiq", "aws_full"} <= names


def test_config_show_tells_values_and_origins_and_hides_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANEW_TOKEN", "s3cret")
    monkeypatch.setenv("ZIZQ_HEARTBEAT_INTERVAL", "5s")
    assert run(["config", "show", "--origin", "--json", "--port", "0"]) == 0
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    answer = json.loads(shown)
    assert answer["server.port"] == {"value": "0", "origin": "--port"}
    assert answer["server.heartbeat-interval"] == {"value": "5s", "origin": "ZIZQ_HEARTBEAT_INTERVAL"}
    assert answer["server.token"] == {"value": "***", "origin": "ANEW_TOKEN"}
    assert answer["server.max-body"] == {"value": "64MiB", "origin": "default"}
    assert run(["config", "show"]) == 0
    assert "ORIGIN" not in capsys.readouterr().out


def test_config_show_tells_what_comes_from_faktorys_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("FAKTORY_ENV", "FAKTORY_PASSWORD", "ANEW_FWP_PORT"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "conf.d" / "faktory.toml"
    file.parent.mkdir()
    file.write_text(
        '[faktory]\nbinding = ":7420"\npassword = "s3cret"\n[throttles]\nslow = {worker = 2, timeout = 9}\n'
    )
    assert run(["config", "show", "--origin", "--json", "--faktory-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    answer = json.loads(shown)
    assert answer["server.fwp-host"] == {"value": "0.0.0.0", "origin": f"{file}: [faktory] binding"}
    assert answer["server.fwp-port"] == {"value": "7420", "origin": f"{file}: [faktory] binding"}
    assert answer["server.fwp-password"] == {"value": "***", "origin": f"{file}: [faktory] password"}
    assert answer["fwp.throttles"]["origin"] == f"{file}: [throttles]"
    assert json.loads(answer["fwp.throttles"]["value"]) == [
        {"queue": "slow", "worker": 2, "timeout_ms": 9_000}
    ]
    assert answer["fwp.cron"] == {"value": "-", "origin": "default"}


def test_config_show_warns_of_what_faktorys_files_have_for_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "conf.d" / "faktory.toml"
    file.parent.mkdir()
    file.write_text("[throttles]\nslow = {worker = 2, burst = 9}\n")
    assert run(["config", "show", "--faktory-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert said == f"Warning: {file}: [throttles].slow.burst is not known and has no effect\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('schedule = "@daily"\ntimezone = "Mars/Base"', '.timezone: "Mars/Base" is not valid; expected the IANA name'),
        ('schedule = "61 * * * *"', '.schedule: cron expression: minute: "61" is not valid; expected 0 to 59'),
    ],
)  # fmt: skip
def test_config_show_refuses_the_cron_entries_that_serve_refuses_and_names_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, words: str
) -> None:
    job = "[fwp.cron.job]\ntype = 'x'\n"
    (tmp_path / "anew.toml").write_text(
        f"[[fwp.cron]]\nschedule = '@hourly'\n{job}[[fwp.cron]]\n{line}\n{job}"
    )
    for command in (["config", "show"], ["serve"]):
        assert run(command) == 2
        assert f"Error: anew.toml: [fwp] cron[2]{words}" in capsys.readouterr().err


def test_a_policy_rule_that_does_not_fit_is_told_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "anew.toml"
    file.write_text(
        "[[fwp.policies]]\nqueue = 'a'\npolicy = 'even'\n"
        "[[fwp.policies]]\nqueue = 'b'\npolicy = {curve = {constant = '-3s'}}\n"
    )
    assert run(["config", "show", "--config", str(file)]) == 2
    assert f'Error: {file}: [fwp] policies[2].policy: curve.constant: "-3s"' in capsys.readouterr().err


def test_a_policy_in_the_file_that_does_not_fit_is_told_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "anew.toml"
    file.write_text('[server]\ndefault-policy = {curve = {constant = "-3s"}}\n')
    assert run(["config", "show", "--config", str(file)]) == 2
    assert f'Error: {file}: [server] default-policy: curve.constant: "-3s"' in capsys.readouterr().err


def test_a_switch_that_is_not_given_does_not_hide_its_variable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANEW_INSECURE", "true")
    assert run(["config", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["server.insecure"] == "true"


@pytest.mark.parametrize(
    "words",
    [
        ["lab", "simulate", "even", "--jobs", "\x1b[31m" + "9" * 90_000],
        ["lab", "\x1b[31m" + "9" * 90_000],
        ["policy", "explain", "even", "--\x1b[31m" + "9" * 90_000],
        ["policy", "explain", "even", "\x1b[31m" + "9" * 90_000],
        ["enqueue", "t", "-q", "q", "--at", "\x1b[31m" + "9" * 90_000],
    ],
)
def test_an_error_repeats_no_huge_argument_and_nothing_that_a_terminal_obeys(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    told = capsys.readouterr().err
    assert re.search(r"999 ?\.\.\. ?999", told)
    assert len(told) < 1_500
    assert "\x1b" not in told


def test_ctrl_c_while_something_is_imported_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "anew.cli.root":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "anew.cli.root")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_memory_that_is_not_there_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greedy(*args: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(importlib.import_module("anew.lab.simulation.simulate"), "simulate", greedy)
    assert run(["lab", "simulate", "even"]) == 1
    assert capsys.readouterr().err == "Error: this needs more memory than there is\n"
