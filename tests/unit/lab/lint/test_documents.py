"""Policies in TOML and JSON: found by name and line; what cannot be read is told with file, line, field and expectation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anew.backoff import Policy
from anew.fwp.policies import DEAD_MS
from anew.lab.lint.documents import MAX_BYTES, NAMES, Document, read_document
from anew.lab.lint.texts import Lines
from anew.units import DAY_MS


def read(text: str, file: str = "policies.toml") -> Document:
    return read_document(text.encode(), file)


def named(document: Document) -> dict[str, Any]:
    assert document.problems == ()
    return {entry.name: entry.value for entry in document.entries}


def test_one_policy_is_called_after_its_file() -> None:
    assert named(read('{"preset": "zizq"}', "retry/mail.json")) == {"mail": {"preset": "zizq"}}
    assert named(read('preset = "zizq"', "mail.toml")) == {"mail": {"preset": "zizq"}}


def test_a_list_of_policies_is_numbered() -> None:
    assert named(read('["even", {"preset": "zizq"}]', "all.json")) == {
        "all[0]": "even",
        "all[1]": {"preset": "zizq"},
    }
    assert [*named(read('[[policies]]\npreset = "even"\n[[policies]]\npreset = "zizq"'))] == [
        "policies[0]",
        "policies[1]",
    ]


def test_a_mapping_gives_the_names() -> None:
    assert named(read('{"web": "even", "mail": {"preset": "zizq"}}', "p.json")) == {
        "web": "even",
        "mail": {"preset": "zizq"},
    }
    assert named(read('web = "even"\n[mail]\npreset = "zizq"')) == {"web": "even", "mail": {"preset": "zizq"}}


def test_policies_may_stand_in_a_table_of_their_own() -> None:
    assert [*named(read('[policies.web]\npreset = "even"\n[policies.mail]\npreset = "zizq"'))] == [
        "web",
        "mail",
    ]
    assert named(read('[policy]\npreset = "even"')) == {"policy": {"preset": "even"}}


def test_the_servers_default_is_read_as_the_server_reads_it() -> None:
    assert named(read('[server]\ndefault_policy = "even"')) == {"default-policy": {"preset": "even"}}
    assert named(read("""[server]\ndefault-policy = '{"preset": "zizq"}'""")) == {
        "default-policy": {"preset": "zizq"}
    }
    own = named(
        read('[server]\ndefault-policy = {preset = "even", max_attempts = 9}\ndefault-retry-limit = 3')
    )
    assert own == {"default-policy": {"preset": "even", "limit": 3}}
    zizq = (
        '[server]\ndefault-backoff-base = "20s"\ndefault-backoff-exponent = 3.5\ndefault-backoff-jitter = 100'
    )
    assert named(read(zizq)) == {"default-policy": {"base_ms": 20_000, "exponent": 3.5, "jitter_ms": 100}}


def test_settings_without_a_policy_are_no_mistake() -> None:
    document = read('[server]\nport = 80\n[client]\nurl = "http://localhost"', "anew.toml")
    assert document == Document()


def test_the_policies_of_the_faktory_protocol_are_read_as_the_server_reads_them() -> None:
    document = read(
        '[[fwp.policies]]\nqueue = "mail"\npolicy = "even"\n[fwp.throttles]\nslow = {worker = 1}\n'
        '[[fwp.policies]]\ntype = "Sync"\npolicy = { preset = "zizq", limit = 3 }\n'
        '[[fwp.policies]]\nqueue = "web"\npolicy = { preset = "nope" }\n'
        "[server]\ndefault-retry-limit = 4\n",
        "anew.toml",
    )
    found = {entry.name: entry.value for entry in document.entries}
    assert found == {"fwp.policies[1]": {"preset": "even"}, "fwp.policies[2]": {"preset": "zizq"}}
    assert [entry.policy().retries for entry in document.entries] == [25, 25]
    assert [entry.dead_retention_ms for entry in document.entries] == [DEAD_MS, DEAD_MS]
    assert [entry.line for entry in document.entries] == [1, 6]
    (problem,) = document.problems
    assert (problem.policy, problem.line) == ("fwp.policies[3]", 11)


def test_the_other_tables_of_the_faktory_protocol_are_passed_over() -> None:
    document = read("[fwp.throttles]\nslow = {worker = 1}")
    assert (document.entries, document.problems) == ((), ())


def test_the_default_limit_of_the_server_holds_for_the_files_policies() -> None:
    document = read('[server]\ndefault-retry-limit = 4\n[policies.web]\npreset = "constant"')
    assert [entry.policy().retries for entry in document.entries] == [4]


def test_stdin_may_hold_either_form_or_a_bare_name() -> None:
    assert named(read('{"web": "even"}', "-")) == {"web": "even"}
    assert named(read('[policies.web]\npreset = "even"', "-")) == {"web": {"preset": "even"}}
    assert named(read("even\n", "-")) == {"policy": "even"}


TOML = """\
# policies of the shop
[lint]
ignore = ["discard"]

[policies.web]
curve = {exponential = {base = "1s"}}

[policies."slow mail"]
preset = "zizq"
"""

JSON = """\
{
  "policies": {
    "web": {"curve": {"constant": "1s"}},

    "mail": "even"
  },
  "policy": {"preset": "zizq"}
}
"""


def lines(document: Document) -> dict[str, int | None]:
    return {entry.name: entry.line for entry in document.entries}


def test_policies_are_found_on_their_lines() -> None:
    assert lines(read(TOML)) == {"web": 5, "slow mail": 8}
    assert lines(read(JSON, "p.json")) == {"policy": 7, "web": 3, "mail": 5}
    assert lines(read('[\n  "even",\n  {"preset": "zizq"}\n]', "p.json")) == {"p[0]": 2, "p[1]": 3}
    assert lines(read('[[policies]]\npreset = "even"\n\n[[policies]]\npreset = "zizq"')) == {
        "policies[0]": 1,
        "policies[1]": 4,
    }
    assert lines(read('port = "even"\n[mail]\npreset = "zizq"')) == {"port": 1, "mail": 2}
    assert lines(read('[server]\nport = 1\ndefault_policy = "even"', "anew.toml")) == {"default-policy": 3}


def test_an_empty_name_has_a_line() -> None:
    assert lines(read('a = "even"\n\n"" = "zizq"\n', "p.toml")) == {"a": 1, "": 3}
    assert lines(read('[a]\npreset = "even"\n\n[[""]]\npreset = "zizq"', "p.toml"))["a"] == 1


def test_a_list_is_searched_once_and_not_for_each_of_its_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    whole = json.JSONDecoder.raw_decode

    def noted(self: json.JSONDecoder, text: str, place: int = 0) -> Any:
        decoded.append(place)
        return whole(self, text, place)

    text = "[\n" + ",\n".join(['"even"'] * 50) + "]"
    lines = Lines(text)
    monkeypatch.setattr(json.JSONDecoder, "raw_decode", noted)
    assert [lines.of_path([index]) for index in range(50)] == [*range(2, 52)]
    assert len(decoded) == 50
    many = read("[[policies]]\npreset = 'even'\n" * 50, "p.toml")
    assert [entry.line for entry in many.entries] == [*range(1, 101, 2)]


@pytest.mark.parametrize(
    ("text", "file", "line", "field", "words"),
    [
        ('{"web": \n', "p.json", 2, "", "no JSON: Expecting value at column 1"),
        ('{"a": "even",\n "a": "zizq"}', "p.json", None, "", "stands in one object twice"),
        ('{"\\ud800": "even"}', "p.json", None, "", "\\ud800 is half of a pair, and the other half is missing; expected"),
        ('{"a": {"curve": {"constant": "\\uDFFF"}}}', "p.json", None, "", "\\udfff is half of a pair"),
        ('[server]\ndefault-policy = \'{"preset": "\\ud800"}\'', "anew.toml", 2, "server.default-policy", "half of a pair"),
        ('{"a": NaN}', "p.json", None, "", "NaN is no number of JSON"),
        ("[web\nx = 1", "p.toml", 1, "", "no TOML: Expected ']' at the end of a table declaration at column 5"),
        ("[a]\nx = 1\n[a]\n", "p.toml", 3, "", "no TOML: Cannot declare"),
        ("[" * 100_000, "p.json", None, "", "; expected a policy, a list of policies"),
        ("x = " + "[" * 100_000, "p.toml", None, "", "names with a policy each as TOML"),
        ("", "p.toml", None, "", "there is no policy in it; expected a policy, a list of policies, or names"),
        ("[]", "p.json", None, "", "there is no policy in it"),
        ("x" * (MAX_BYTES + 1), "p.toml", None, "size", "size: 1,048,577 bytes are too many; expected at most 1,048,576"),
        ("[policies.web]\n\nlimt = 3\npreset = 'even'", "p.toml", 3, "limt", "limt: is no known field; expected one of"),
        ("[policies.a]\nlimit = 3\npreset='even'\n[policies.web]\ncap='1s'\nlimit = -1\npreset='even'",
         "p.toml", 6, "limit", "limit: -1 is not valid; expected a whole number"),
        ('{"web": {"curve": {"exponential": {\n"base": "1q"}}}}', "p.json", 2, "curve.exponential.base", "expected a dur"),
        ('{"web": "evn"}', "p.json", 1, "preset", 'did you mean "even"?'),
        ("[server]\ndefault-policy = '{'", "anew.toml", 2, "server.default-policy", "expected a policy as JSON"),
        ("[server]\ndefault-policy='even'\ndefault-retry-limit = true", "anew.toml", 3, "server.default-retry-limit", "from 0"),
        ("[lint]\nignore = ['nope']", "p.toml", 2, "lint.ignore", "expected the name of a rule"),
        ("[lint]\njobs = 'many'", "p.toml", 2, "lint.jobs", "expected a whole number"),
        ("[lint]\nignor = []", "p.toml", 2, "lint.ignor", "is no known field; expected one of: ignore, select, jobs, "),
        ("[lint]\noutage = ['3 parsecs']", "p.toml", 2, "lint.outage[0]", "expected a duration such as"),
        ("lint = 3", "p.toml", 1, "lint", "expected a table with one of: ignore"),
        ("[lint]\njob = 20000", "p.toml", 2, "lint.job", 'lint.job: is no known field; expected one of: ignore, '),
        ("[lint]\njob = 20000", "p.toml", 2, "lint.job", '; did you mean "jobs"?'),
        ("[lint]\njobs = 0", "p.toml", 2, "lint.jobs", "lint.jobs: 0 is not valid; expected a whole number from 1"),
        # Three hours without their unit would be 3 ms, and say nothing.
        ("[lint]\n\noutage = ['20m', '3']", "p.toml", 3, "lint.outage[1]",
         'lint.outage[1]: "3" has no unit; expected a duration with its unit, such as 3s or 3ms'),
        ("[lint]\noutage = 3600", "p.toml", 2, "lint.outage", "lint.outage: 3600 has no unit; expected a duration"),
        ("[lint]\noutage = true", "p.toml", 2, "lint.outage", "lint.outage: true is not valid; expected a duration"),
        ("[lint]\noutage = -3", "p.toml", 2, "lint.outage", "lint.outage: -3 is not valid; expected a duration"),
        ("[lint]\ndead-retention = '30'", "p.toml", 2, "lint.dead-retention", '"30" has no unit; expected'),
        ("[lint]\npayload_retention = 30", "p.toml", 2, "lint.payload_retention", "30 has no unit; expected"),
        (f"[lint]\noutage = {['1h'] * 101}", "p.toml", 2, "lint.outage", "101 outages are too many; expected at most 100"),
        ("[lint]\ndeaths = 1", "p.toml", 2, "lint.deaths", 'expected a share from 0 to less than 1, or text such as "1 %"'),
        ("[lint]\ndeaths = '1'", "p.toml", 2, "lint.deaths", 'lint.deaths: "1" is not valid; expected a share'),
        ("[lint]\nselect = 'few_faces'", "p.toml", 2, "lint.select", 'did you mean "few-faces"?'),
        ("[lint]\nignore = ['wbe:no-jitter']\n[policies.web]\npreset='even'", "p.toml", 2, "lint.ignore",
         'expected the name of a policy before the colon: web; did you mean "web"?'),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(text: str, file: str, line: int | None, field: str, words: str) -> None:
    (problem,) = read(text, file).problems
    assert (problem.file, problem.line, problem.field) == (file, line, field)
    assert words in problem.message


def test_a_whole_pair_is_a_character() -> None:
    assert [entry.name for entry in read('{"\\ud83d\\ude00": "even"}', "p.json").entries] == ["\U0001f600"]


def test_bytes_that_are_no_text_are_told() -> None:
    (problem,) = read_document(b"x = \xff", "p.toml").problems
    assert problem.message == "byte 4 is not UTF-8; expected text"


def test_one_bad_policy_does_not_hide_the_others() -> None:
    document = read(json.dumps({"good": "even", "bad": {"curve": "full"}, "fine": "zizq"}), "p.json")
    assert [entry.name for entry in document.entries] == ["good", "fine"]
    (problem,) = document.problems
    assert (problem.policy, problem.field) == ("bad", "curve")


def test_a_bad_policy_does_not_hide_one_of_the_same_name() -> None:
    document = read('[web]\npreset = "even"\n[policies.web]\npreset = "evn"')
    assert [(entry.name, entry.value) for entry in document.entries] == [("web", {"preset": "even"})]
    assert [problem.policy for problem in document.problems] == ["web"]


def test_too_many_policies_are_refused() -> None:
    (problem,) = read(json.dumps(["even"] * 1_001), "p.json").problems
    assert "policies: 1,001 are too many; expected at most 1000 in one file" in problem.message


def test_the_lint_table_says_what_the_policies_will_meet() -> None:
    text = """[lint]
ignore = ["discard", "web:no-jitter"]
select = "no-jitter"
jobs = 50
outage = ["1h", "3d"]
deaths = "2.5 %"
dead-retention = "30d"
payload_retention = "1d"
[policies.web]
preset = "even"
"""
    assert read(text).stated == {
        "ignore": ("discard", "web:no-jitter"),
        "select": ("no-jitter",),
        "jobs": 50,
        "outages_ms": (3_600_000, 3 * DAY_MS),
        "deaths": 0.025,
        "dead_retention_ms": 30 * DAY_MS,
        "payload_retention_ms": DAY_MS,
    }
    assert len(NAMES) == 7


def test_what_is_wrong_in_the_lint_table_hides_nothing_else() -> None:
    document = read(
        """[lint]
ignore = ["discard", "nope", "web:no-jitter"]
job = 20000
outage = ["20m", "3"]
deaths = 0.05
[policies.web]
preset = "even"
"""
    )
    assert [entry.name for entry in document.entries] == ["web"]
    assert [(problem.field, problem.line) for problem in document.problems] == [
        ("lint.job", 3),
        ("lint.outage[1]", 4),
        ("lint.ignore", 2),
    ]
    assert document.stated == {"ignore": ("discard", "web:no-jitter"), "deaths": 0.05}


@pytest.mark.parametrize(
    ("text", "ms"), [("0", 0), ("'0'", 0), ("'0s'", 0), ("'3ms'", 3), ("'PT1H'", 3_600_000)]
)
def test_nothing_and_what_has_a_unit_is_a_duration(text: str, ms: int) -> None:
    assert read(f"[lint]\noutage = {text}\n[a]\npreset = 'even'").stated["outages_ms"] == (ms,)


@pytest.mark.parametrize(
    ("text", "share"),
    [("0", 0.0), ("0.01", 0.01), ("'1 %'", 0.01), ("'0.5%'", 0.005), ("'0.05'", 0.05), ("'99 %'", 0.99)],
)
def test_deaths_are_a_share_or_a_percentage(text: str, share: float) -> None:
    assert read(f"[lint]\ndeaths = {text}\n[a]\npreset = 'even'").stated["deaths"] == share


def test_a_name_that_stands_twice_is_told_as_that() -> None:
    (problem,) = read('{"a": "even", "a": "zizq"}', "p.json").problems
    assert problem.message == '"a" stands in one object twice; expected different names'


def test_how_long_the_dead_are_kept_may_stand_among_the_servers_settings() -> None:
    document = read('[server]\ndefault_dead_job_retention = "14d"', "anew.toml")
    assert document.stated["dead_retention_ms"] == 14 * DAY_MS


def test_an_entry_builds_its_policy() -> None:
    (entry,) = read('preset = "zizq"', "p.toml").entries
    assert entry.policy() == Policy.from_json("zizq")


def test_each_mistake_of_a_policy_is_told_with_its_line() -> None:
    text = """
[policies.web]
limit = -1
cap = "1q"
jitter = "ful"

[policies.web.curve.exponential]
bas = "1s"

[policies.mail]
preset = "evn"
limit = -1
"""
    found = read_document(text.encode(), "p.toml")
    assert not found.entries
    told = sorted((problem.line, problem.policy, problem.field) for problem in found.problems)
    assert told == [
        (3, "web", "limit"),
        (4, "web", "cap"),
        (5, "web", "jitter"),
        (8, "web", "curve.exponential.bas"),
        (11, "mail", "preset"),  # whose fields and limits are the preset's affair
    ]


def test_what_was_left_aside_is_not_said_to_be_missing() -> None:
    found = read_document(b'{"web": {"phases": [{"curve": {"constant": "1q"}}], "limit": -1}}', "p.json")
    assert {problem.field for problem in found.problems} == {"phases[0].curve.constant", "limit"}
    zizq = b'{"web": {"base_ms": -1, "exponent": 4, "jitter_ms": 0}}'
    assert [problem.field for problem in read_document(zizq, "p.json").problems] == ["base_ms"]
