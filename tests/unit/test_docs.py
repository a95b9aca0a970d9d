"""The documents are true: commands exist, policies build, examples print what they say, tables are complete."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

import anew
from anew import backoff, client, lab, testing
from anew.backoff import PRESETS, Policy
from anew.backoff.curves import CURVES
from anew.backoff.form import SHARED
from anew.backoff.policy import JITTERS
from anew.cli.root import root, run
from anew.config import FOREIGN, Settings, declared
from anew.http import metrics
from anew.jobs import Move, State, diagram
from anew.lab import RULES, explain, lint
from anew.lab.families import FAMILIES
from anew.lab.lint import Context, Severity
from anew.lab.lint.documents import read_document
from anew.topics.delivery_policy import layer_of
from anew.topics.foreign_policy import SNS_FIELDS, ZAQAR_FIELDS

from .docs import (
    DOCUMENTS,
    README,
    ROOT,
    Block,
    anchors,
    blocks,
    commands,
    draws,
    inline_commands,
    inline_objects,
    links,
)

DOCS = ROOT / "docs"
EVERYTHING = "\n".join(document.read_text("utf-8") for document in DOCUMENTS)
SHELL = [block for document in DOCUMENTS for block in blocks(document, "sh", "console")]


def name_of(value: object) -> str:
    """A test's name: the document, or the command."""
    if isinstance(value, Path):
        return str(value.relative_to(ROOT))
    return " ".join(value)[:60] if isinstance(value, list) else ""


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words lead to, and its arguments."""
    command: click.Command = root
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        following = command.get_command(click.Context(command), rest.pop(0))
        assert following is not None, f"no such command: anew {' '.join(words)}"
        command = following
    return command, rest


def all_commands(command: click.Command = root, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that does something, by its whole name."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    for name in command.list_commands(click.Context(command)):
        following = command.get_command(click.Context(command), name)
        assert following is not None
        yield from all_commands(following, (*path, name))


# -- commands


@pytest.mark.parametrize("words", [words for block in SHELL for words in commands(block)], ids=name_of)
def test_a_command_that_is_shown_exists_with_these_options(words: list[str]) -> None:
    command, rest = find(words)
    parsed = command.make_context("anew", rest)  # insists on what is required; runs nothing
    assert parsed.args == []


@pytest.mark.parametrize(
    "words", [words for document in DOCUMENTS for words in inline_commands(document)], ids=name_of
)
def test_a_command_that_is_named_exists(words: list[str]) -> None:
    command, rest = find(words)
    known = {name for parameter in command.params for name in parameter.opts} | {"--help", "--version"}
    assert {word for word in rest if word.startswith("-")} <= known


@pytest.mark.parametrize("name", list(all_commands()))
def test_every_command_is_documented(name: str) -> None:
    assert f"anew {name}" in EVERYTHING


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (line.removeprefix("$ "), output)
        for block in SHELL
        if block.language == "console" and not draws(block)
        for line, _, output in [block.text.partition("\n")]
    ],
    ids=name_of,
)
def test_an_example_prints_what_it_shows(
    command: str, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (words,) = commands(Block(README, "console", command))
    run(words)
    shown = capsys.readouterr()
    assert shown.out + shown.err == expected


def test_the_help_can_be_shown() -> None:
    assert "Exit codes" in CliRunner().invoke(root, ["--help"]).output


# -- policies


def policies(block: Block) -> Iterator[object]:
    """The JSON values of a block, one or several lines each."""
    text = block.text.strip()
    lines = text.splitlines()
    for part in lines if all(line.startswith(("{", '"')) for line in lines) else [text]:
        yield msgspec.json.decode(part)


@pytest.mark.parametrize("block", blocks(DOCS / "policies.md", "json"), ids=lambda block: block.text[:40])
def test_a_policy_that_is_shown_builds(block: Block) -> None:
    for value in policies(block):
        assert explain(Policy.from_json(value), 30).rows


@pytest.mark.parametrize("text", inline_objects(DOCS / "retries.md"))
def test_a_policy_that_is_recommended_builds(text: str) -> None:
    assert explain(Policy.from_json(msgspec.json.decode(text)), 4).rows


def test_the_curves_and_jitters_that_are_shown_are_all_there_are() -> None:
    shown = [policy for block in blocks(DOCS / "policies.md", "json") for policy in policies(block)]
    objects = [value for value in shown if isinstance(value, dict)]
    curves = {next(iter(value["curve"])) for value in objects if "curve" in value}
    jitters = {
        next(iter(value["jitter"])) if isinstance(value["jitter"], dict) else value["jitter"]
        for value in objects
        if "jitter" in value
    }
    assert curves == CURVES.keys()
    assert jitters == JITTERS.keys()


def test_the_table_of_presets() -> None:
    text = (DOCS / "policies.md").read_text("utf-8")
    for item in PRESETS.values():
        also = f" (also `{'`, `'.join(item.aliases)}`)" if item.aliases else ""
        parameters = ", ".join(f"`{name}`" for name in item.parameters) or "-"
        summary = item.summary.replace("*", "\\*")
        assert f"| `{item.name}`{also} | {parameters} | {summary} |" in text
    table = text.partition("| preset | parameters |")[2].partition("\n\n")[0]
    assert len(re.findall(r"^\| `", table, re.MULTILINE)) == len(PRESETS)


def test_the_readme_counts_the_pieces() -> None:
    counted = f"{len(CURVES)} curves, {len(JITTERS)} jitters, phases, deadlines, {len(PRESETS)} presets"
    assert counted in README.read_text("utf-8")


@pytest.mark.parametrize("field", ["curve", "phases", *SHARED])
def test_every_field_of_a_policy_is_documented(field: str) -> None:
    assert f"`{field}`" in (DOCS / "policies.md").read_text("utf-8")


# -- delivery policies


@pytest.mark.parametrize("block", blocks(DOCS / "from-zaqar-and-sns.md", "json"), ids=lambda b: b.text[:40])
def test_a_delivery_policy_that_is_shown_is_read(block: Block) -> None:
    assert layer_of(msgspec.json.decode(block.text))


@pytest.mark.parametrize("name", [*SNS_FIELDS, *ZAQAR_FIELDS, "post_headers", "post_data"])
def test_every_field_of_a_foreign_delivery_policy_is_mapped(name: str) -> None:
    assert f"`{name}`" in (DOCS / "from-zaqar-and-sns.md").read_text("utf-8")


# -- lint


def test_the_table_of_rules() -> None:
    text = (DOCS / "lint.md").read_text("utf-8")
    table = text.partition("| rule | severity | why |")[2].partition("\n\n")[0].strip().splitlines()[1:]
    assert table == [f"| `{rule.name}` | {rule.severity} | {rule.reason} |" for rule in RULES.values()]


def test_the_families_of_fit_are_all_named() -> None:
    section = (
        (DOCS / "lint.md").read_text("utf-8").partition("`--like` chooses the family: ")[2].partition(";")[0]
    )
    assert re.findall(r"`(\w+)`", section) == [*FAMILIES]


def test_the_file_that_is_shown_is_read_and_good() -> None:
    (block,) = blocks(DOCS / "lint.md", "toml")
    document = read_document(block.text.encode(), "policies.toml")
    assert document.problems == ()
    assert [entry.name for entry in document.entries] == ["web", "mail"]
    assert document.stated["outages_ms"] == (3_600_000, 259_200_000)
    context = Context(jobs=document.stated["jobs"], outages_ms=document.stated["outages_ms"])
    for entry in document.entries:
        assert not [
            found for found in lint(entry.value, context) if found.severity.at_least(Severity.WARNING)
        ]


@pytest.mark.parametrize(
    ("name", "expected"), [("lint.md", "warning few-faces retry 1 has 30"), ("lab.md", "(10, 100)")]
)
def test_the_lab_examples_run(name: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(DOCS / name, "python")
    exec(compile(block.text, name, "exec"), {})
    assert expected in capsys.readouterr().out


# -- settings


@pytest.mark.parametrize("setting", list(declared()), ids=lambda item: f"{item[0]}.{item[2].name}")
def test_the_tables_of_settings(setting: tuple[str, str, object]) -> None:
    group, attribute, _ = setting
    item = next(found for name, field, found in declared() if (name, field) == (group, attribute))
    default = item.show(getattr(getattr(Settings(), group), attribute))
    short = f", `{item.short}`" if item.short else ""
    name = f"--{item.name}" if item.table == "server" else item.name
    row = f"| `{name}`{short} | {'none' if default == '-' else f'`{default}`'} | {item.help.replace('|', 'or')} |"
    assert row in (DOCS / "operations.md").read_text("utf-8")


@pytest.mark.parametrize("name", list(FOREIGN))
def test_every_flag_of_zizqs_is_documented(name: str) -> None:
    assert f"`--{name}`" in (DOCS / "operations.md").read_text("utf-8")


def test_no_flag_is_documented_that_does_not_exist() -> None:
    text = (DOCS / "operations.md").read_text("utf-8")
    rows = re.findall(r"^\| `--([a-z-]+)`", text, re.MULTILINE)
    assert sorted(rows) == sorted(setting.name for _, _, setting in declared() if setting.table == "server")
    assert set(rows) <= {name.removeprefix("--") for flag in find(["serve"])[0].params for name in flag.opts}


def test_the_flags_of_the_commands_that_speak_to_a_server_are_told_from_their_settings() -> None:
    flags = {name for flag in find(["queues", "list"])[0].params for name in flag.opts}
    text = (DOCS / "operations.md").read_text("utf-8")
    named = {setting.name for _, _, setting in declared() if setting.table == "client"}
    assert {name for name in named if f"--{name}" in flags} == named - {"timeout", "admin-url"}
    assert "--admin-url" in {name for flag in find(["top"])[0].params for name in flag.opts}
    assert "`--url`, `--token`, `--ca`, `--cert`, `--key`" in text
    for name in named:
        assert f"`ANEW_{name.upper().replace('-', '_')}`" in text


# -- names


def test_the_public_names_are_sorted_and_exist() -> None:
    for module in (anew, client, backoff, lab, testing):
        names = module.__all__
        assert len(set(names)) == len(names)
        for name in names:
            assert hasattr(module, name), name


@pytest.mark.parametrize("name", [*client.__all__, *backoff.__all__, *lab.__all__, *testing.__all__])
def test_every_public_name_is_documented(name: str) -> None:
    assert f"`{name}`" in EVERYTHING


def test_every_method_of_the_client_is_documented() -> None:
    methods = {name for name in dir(client.Client) if not name.startswith("_")}
    row = re.search(r"^\| `Client` \| (.*) \|$", (DOCS / "client.md").read_text("utf-8"), re.MULTILINE)
    assert row is not None
    assert set(re.findall(r"`(\w+)`", row[1])) == methods


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_python_examples_import_what_exists(document: Path) -> None:
    for block in blocks(document, "python"):
        compile(block.text, str(document), "exec")
        for module, names in re.findall(r"^from (anew[\w.]*) import (.+)$", block.text, re.MULTILINE):
            found = importlib.import_module(module)
            for name in names.split(", "):
                # Said first: to ask for what a Django project's settings describe needs the settings.
                assert name in getattr(found, "__all__", ()) or hasattr(found, name)


def test_the_policy_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(DOCS / "policies.md", "python")
    exec(compile(block.text, "policies.md", "exec"), {})
    assert "retry 1: 1 s" in capsys.readouterr().out


# -- states and metrics


def test_the_diagram_is_the_tables_own() -> None:
    (block,) = blocks(DOCS / "states.md", "mermaid")
    assert block.text == diagram()


@pytest.mark.parametrize("word", [*State, *Move])
def test_every_state_and_move_is_explained(word: str) -> None:
    assert f"`{word}`" in (DOCS / "states.md").read_text("utf-8")


def test_every_metric_is_documented() -> None:
    source = Path(metrics.__file__).read_text("utf-8")
    names = set(re.findall(r'"(anew_\w+)"', source))
    names |= {f"anew_jobs_{word}" for word in re.findall(r'\("(\w+)", "[A-Z][^"]*", stats\.\w+\)', source)}
    assert len(names) > 15
    text = (DOCS / "operations.md").read_text("utf-8")
    assert [name for name in sorted(names) if not re.search(rf"`{name}(_total)?(\{{[\w,]+\}})?`", text)] == []


# -- links and paths


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in links(document):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize(
    "file", [*DOCUMENTS, *sorted((ROOT / "demo").glob("*.*")), ROOT / "Makefile"], ids=name_of
)
def test_no_path_of_somebodys_machine(file: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:tmp|work|home|root|Users)/\S*", file.read_text("utf-8")) == []
