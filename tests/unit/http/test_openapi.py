"""The OpenAPI document against the routes, and against itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from anew.http.openapi import TAGS, document
from anew.jobs import IdText
from tests.routes import every_route

ROUTER = every_route()
DOCUMENT = document(ROUTER)
SCHEMAS = DOCUMENT["components"]["schemas"]


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_method_of_every_route_is_documented() -> None:
    for route in ROUTER.routes:
        assert route.docs.keys() == route.handlers.keys() - {b"HEAD"}, route.template


def test_path_parameters_are_those_of_the_path() -> None:
    for path, _, operation in operations():
        named = [item["name"] for item in operation.get("parameters", []) if item["in"] == "path"]
        assert named == re.findall(r"{(\w+)}", path)


def test_names_and_tags_are_in_order() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(set(names)) == len(names)
    assert {tag for _, _, operation in operations() for tag in operation["tags"]} == set(TAGS)
    assert all(operation["summary"].endswith(".") for _, _, operation in operations())


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    text = msgspec.json.encode(DOCUMENT).decode()
    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_schema(name: str) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | SCHEMAS[name]
    assert jsonschema_rs.meta.is_valid(schema)
    assert not jsonschema_rs.meta.is_valid(schema | {"type": "text"})


def test_a_body_of_204_is_never_promised() -> None:
    for _, _, operation in operations():
        for status, answer in operation["responses"].items():
            assert ("content" in answer) == (status != "204")


def validator(name: str) -> Any:
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    return jsonschema_rs.Draft202012Validator(schema)


def test_what_a_new_job_may_say() -> None:
    job = {"type": "t", "queue": "q", "payload": None}
    fits = validator("NewJob").is_valid
    assert fits(job)
    assert fits(job | {"priority": None, "ready_at": 5.0, "policy": {"preset": "even"}})
    for change in (
        {"queue": ""},
        {"queue": "a,b"},
        {"type": "a\\"},
        {"type": "\0"},
        {"priority": 65536},
        {"ready_at": -1},
    ):
        assert not fits(job | change)
    assert not fits({"type": "t", "queue": "q"})


def test_what_a_damaged_file_has_left_may_stand_for_a_policy() -> None:
    job = {"id": IdText("tag000000").write(5), "type": "t", "queue": "q", "priority": 1, "status": "dead"}
    job |= {"ready_at": 1, "attempts": 0}
    fits = validator("Job").is_valid
    assert fits(job | {"policy": "even"})
    assert fits(job | {"policy": {"unreadable": "{"}})
    assert not fits(job | {"policy": {"unread": "{"}})
    assert not fits(job | {"policy": {"unreadable": 1}})


@pytest.mark.parametrize(
    ("text", "fits"),
    [("", True), ("7", True), ("..", True), ("1..2", True), ("..65535", True), ("65536", False), ("x", False), ("1...2", False)],
)  # fmt: skip
def test_ranges_have_a_pattern(text: str, fits: bool) -> None:
    (schema,) = {
        item["name"]: item["schema"] for item in DOCUMENT["paths"]["/jobs"]["get"]["parameters"]
    }["priority"],  # fmt: skip
    assert bool(re.search(schema["pattern"], text)) == fits


def test_ids_have_a_pattern() -> None:
    schema = SCHEMAS["Job"]["properties"]["id"]
    assert re.search(schema["pattern"], IdText("tag000000").write(5))
