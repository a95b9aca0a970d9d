"""Policies and payloads as people type them: what cannot be read is refused in one sentence, whatever it is."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from anew.cli.root import run
from anew.cli.values import GivenPolicy, given_policy, read_payload, read_policy
from anew.errors import InvalidInput, InvalidJob, InvalidPolicy

from ..store.recording import Recording

DEEP = "[" * 200_000


def recorded(directory: Path) -> Path:
    """A store in which nothing ever failed."""
    Recording(directory).close()
    return directory


def stdin_of(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Input data was truncated|Expecting"),
        ('{"preset": "even"}}', "Extra data|trailing"),
        (DEEP, "it nests too deeply"),
        ('{"preset": "even", "limit": "\\ud800"}', "surrogate|truncated|escape"),
        ('"\udcff"', "can't decode byte 0xff"),
        ('{"preset": 1e400}', "out of range"),
        ('{"preset": "even", "limit": NaN}', "malformed|invalid"),
    ],
)
def test_what_is_no_json_is_no_policy(text: str, reason: str) -> None:
    with pytest.raises(InvalidPolicy, match=f"^policy: .* is not JSON .*({reason}).*; expected JSON"):
        read_policy(text)


@pytest.mark.parametrize("text", ["{", DEEP, '"\udcff"'])
def test_what_is_no_json_is_no_payload(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"^payload: .* is not JSON"):
        read_payload(text)


def test_a_payload_that_nests_too_deeply_is_told_so() -> None:
    with pytest.raises(InvalidJob, match=r"is not JSON \(it nests too deeply\)"):
        read_payload(DEEP)


def test_a_name_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match='"limit" stands in one object twice'):
        read_policy('{"preset": "even", "limit": 3, "limit": 30}')


def test_nothing_is_no_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(" \n", "utf-8")
    for text in ("", f"@{empty}"):
        with pytest.raises(
            InvalidPolicy, match=r"^policy: .* holds nothing; expected JSON or the name of a preset"
        ):
            read_policy(text)
    stdin_of(monkeypatch, b'"even"')
    assert read_policy("-") == "even"
    with pytest.raises(InvalidPolicy, match=r"stdin \(which can be read once\) holds nothing"):
        read_policy("-")


POLICIES = """
[webhooks]
preset = "zizq"
limit = 6

[mails]
curve = { constant = "5m" }

[broken]
preset = "zizq"
jiter = "full"
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with policies in it, where the commands run."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "policies.toml": POLICIES,
        "one.toml": 'preset = "even"\nlimit = 5\n',
        "lone.toml": '[webhooks]\npreset = "even"\n',
        "anew.toml": '[server]\nport = 7890\ndefault-policy = "even"\ndefault-retry-limit = 7\n',
        "own.toml": "[server]\ndefault-retry-limit = 7\n[policies]\nown = { curve = { constant = '1m' } }\nnamed = 'oban'\n",
        "none.toml": "[server]\nport = 7890\n",
        "half.toml": "a = \n",
        "policy.json": '{"curve": {"constant": "5m"}, "limit": 3}',
        "several.json": '[{"preset": "even"}, "zizq"]',
        "word.json": "even\n",
        "at:noon.json": '{"preset": "oban"}',
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("@policies.toml:webhooks", "webhooks", {"preset": "zizq", "limit": 6}),
        ("@policies.toml:mails", "mails", {"curve": {"constant": "5m"}}),
        ("@one.toml", "one", {"preset": "even", "limit": 5}),
        ("@lone.toml", "webhooks", {"preset": "even"}),
        # What the server's settings say of its default policy, its retries among them.
        ("@anew.toml", "default-policy", {"preset": "even", "limit": 7}),
        ("@own.toml:own", "own", {"curve": {"constant": "1m"}, "limit": 7}),
        # A limit of its own wins: Oban's preset has one.
        ("@own.toml:named", "named", "oban"),
        ("@policy.json", "policy", {"curve": {"constant": "5m"}, "limit": 3}),
        ("@several.json:several[1]", "several[1]", "zizq"),
        ("@word.json", "", "even"),
        ("@at:noon.json", "at:noon", {"preset": "oban"}),
        ("even", "", "even"),
    ],
)
def test_a_file_is_read_as_lint_reads_it(text: str, name: str, value: object, files: Path) -> None:
    assert given_policy(text) == GivenPolicy(name, value)
    assert read_policy(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "@policies.toml",
            "policy: @policies.toml holds 3 policies; expected one of webhooks, mails, broken: @policies.toml:webhooks",
        ),
        (
            "@policies.toml:webhoks",
            'policy: @policies.toml holds no policy "webhoks"; expected one of webhooks, mails, broken: '
            "@policies.toml:webhooks",
        ),
        (
            "@several.json",
            "policy: @several.json holds 2 policies; expected one of several[0], several[1]: @several.json:several[0]",
        ),
        ("@none.toml", "policy: @none.toml holds no policy; expected one, or several with names"),
        (
            "policy.json",
            'policy: "policy.json" is not valid: it is no preset, but a file; did you mean @policy.json?',
        ),
        (
            "policies.toml:mails",
            'policy: "policies.toml:mails" is not valid: it is no preset, but a file; did you mean '
            "@policies.toml:mails?",
        ),
    ],
)
def test_which_policy_is_meant_is_asked(text: str, message: str, files: Path) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        read_policy(text)
    assert str(caught.value) == message


def test_what_is_wrong_in_a_file_is_told_with_its_line(files: Path) -> None:
    with pytest.raises(InvalidPolicy, match=r"^@policies\.toml, line 11: jiter: is no known field"):
        read_policy("@policies.toml:broken")
    with pytest.raises(InvalidPolicy, match=r"^@half\.toml, line 1: no TOML: .* as TOML$"):
        read_policy("@half.toml")
    with pytest.raises(InvalidPolicy, match=r'^preset: "nope\.json" is not valid'):
        read_policy("nope.json")


def test_many_names_are_not_all_listed(tmp_path: Path) -> None:
    many = tmp_path / "many.toml"
    many.write_text("".join(f'p{number} = "even"\n' for number in range(20)), "utf-8")
    with pytest.raises(InvalidPolicy, match=r"holds 20 policies; expected one of p0, .*, p11 and 8 more: @"):
        read_policy(f"@{many}")


def test_stdin_may_be_toml_with_one_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin_of(monkeypatch, b'[webhooks]\npreset = "zizq"\n')
    assert given_policy("-") == GivenPolicy("webhooks", {"preset": "zizq"})
    stdin_of(monkeypatch, b"even\n")
    assert given_policy("-") == GivenPolicy("", "even")
    stdin_of(monkeypatch, POLICIES.encode())
    with pytest.raises(
        InvalidPolicy, match="stdin holds 3 policies: webhooks, mails, broken; expected one, or a file"
    ):
        read_policy("-")


def test_a_policy_without_a_file_loads_no_reader_of_files() -> None:
    code = "import sys; from anew.cli.values import read_policy; read_policy('even'); print('anew.lab' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(InvalidInput, match=r"^@/dev/zero: is too long; expected at most 1,048,576 bytes"):
        read_policy("@/dev/zero")


def test_a_file_that_is_not_there_says_what_was_expected() -> None:
    with pytest.raises(
        InvalidInput, match=r"^@no/such/file: No such file or directory; expected a file that can be read$"
    ):
        read_policy("@no/such/file")


def test_neither_is_one_that_is_linted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "lint", "/dev/zero"]) == 2
    assert "/dev/zero: is too long" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "policy explain even --outage 30",
        "policy lint --policy even --outage 30",
        "policy lint --policy even --dead-retention 30",
        "policy lint --policy even --payload-retention 30",
        *(f"lab simulate even --{name} 30" for name in ("over", "outage", "latency", "timeout", "horizon")),
        *(f"lab compare even zizq --{name} 30" for name in ("over", "outage", "latency", "timeout", "horizon")),
        "lab fit --first 10s --retries 9 --window 30",
        "lab fit --window 3d --retries 9 --first 30",
        "lab fit --window 3d --retries 9 --first 10s --cap 30",
        "lab chart even --kind load --outage 30",
        "lab chart even --kind load --over 30",
        "lab replay even --since 30",
        "enqueue t -q q --delay 30",
        "enqueue t -q q --keep-completed 30",
        "enqueue t -q q --keep-dead 30",
        "dead retry --all --spread 30",
        *(f"config show --{name} 30" for name in ("max-lease", "drain-timeout", "stream-stall-timeout", "header-timeout")),
        "serve --max-lease 30",
    ],
)  # fmt: skip
def test_no_command_takes_a_bare_number_for_a_duration(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--root-dir", str(recorded(tmp_path))] if words.startswith("lab replay") else []
    assert run([*words.split(), *more]) == 2
    name = words.split()[-2]
    assert (
        f'Error: {name}: "30" has no unit; expected a duration with its unit, such as 30s or 30ms'
        in capsys.readouterr().err
    )


def test_json_keeps_whole_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "explain", '{"curve": {"constant": 15000}, "limit": 1}']) == 0
    assert "15 s" in capsys.readouterr().out
