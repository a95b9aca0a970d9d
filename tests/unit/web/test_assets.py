"""The files that pages load: what is vendored is what was published, and nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
import re

import pytest

from anew.web.assets import PREFIX, TYPES, Assets

from .vendored import VENDOR, Vendored, manifest

ASSETS = Assets()
OWN = sorted(
    ASSETS.by_name.keys() - {file.path.rpartition("/")[2] for lib in manifest() for file in lib.files}
)


def test_the_manifest_names_all_that_is_vendored() -> None:
    there = {path.relative_to(VENDOR).as_posix() for path in VENDOR.rglob("*") if path.is_file()}
    assert there == {"manifest.json"} | {file.path for library in manifest() for file in library.files}


@pytest.mark.parametrize(
    ("path", "expected"), [(file.path, file.sha256) for lib in manifest() for file in lib.files]
)
def test_a_vendored_file_is_the_one_that_was_published(path: str, expected: str) -> None:
    assert hashlib.sha256((VENDOR / path).read_bytes()).hexdigest() == expected


@pytest.mark.parametrize("library", manifest(), ids=lambda library: library.name)
def test_a_vendored_library_comes_with_its_licence(library: Vendored) -> None:
    (licence,) = [file.path for file in library.files if file.path.endswith("LICENSE")]
    text = (VENDOR / licence).read_text()
    assert {"MIT": "MIT License", "0BSD": "Zero-Clause BSD"}[library.licence] in text


@pytest.mark.parametrize(("name", "version"), [("uPlot.iife.min.js", "v1.6.32"), ("htmx.min.js", '"4.0.1"')])
def test_the_manifest_names_the_version_that_the_file_says_it_is(name: str, version: str) -> None:
    assert version.encode() in ASSETS.by_name[name].body
    assert version.strip('v"') in {library.version for library in manifest()}


def test_only_known_types_are_served() -> None:
    assert {name.rpartition(".")[2] for name in ASSETS.by_name} <= set(TYPES)
    assert not {"LICENSE", "manifest.json"} & set(ASSETS.by_name)


def test_the_address_holds_the_hash_of_all_files() -> None:
    assert ASSETS.url("lab.css") == f"{PREFIX}/{ASSETS.version}/lab.css"
    assert re.fullmatch(r"[0-9a-f]{16}", ASSETS.version)
    assert ASSETS.find(ASSETS.version, "lab.css") is ASSETS.by_name["lab.css"]
    assert ASSETS.find("0" * 16, "lab.css") is None
    assert ASSETS.find(ASSETS.version, "../lab.py") is None


def test_an_unknown_file_has_no_address() -> None:
    with pytest.raises(KeyError):
        ASSETS.url("nothing.js")


@pytest.mark.parametrize("name", [name for name in OWN if name.endswith(".js")])
def test_our_scripts_need_nothing_that_the_policy_forbids(name: str) -> None:
    text = ASSETS.by_name[name].body.decode()
    assert not re.findall(r"\beval\(|new Function|innerHTML|insertAdjacentHTML|document\.write|cssText", text)
    assert not re.findall(r"https?://", text)
    imported = re.findall(r'from "\./([\w.]+)"', text)
    assert set(imported) <= set(ASSETS.by_name)


def test_our_style_sheet_loads_nothing() -> None:
    assert not re.findall(rb"url\(|@import|https?:", ASSETS.by_name["lab.css"].body)
