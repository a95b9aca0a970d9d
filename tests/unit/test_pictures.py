"""The pictures of the documents: each is what the command above it draws, and says what the command prints."""

from __future__ import annotations

import base64
import io
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from anew.cli.root import run

from .docs import DOCUMENTS, ROOT, Block, blocks, draws, pictures

FOLDER = ROOT / "docs" / "pictures"
SHOWN = [(document, *shown) for document in DOCUMENTS for shown in pictures(document)]
DRAWN = [block for document in DOCUMENTS for block in blocks(document, "console") if draws(block)]
SVG = "{http://www.w3.org/2000/svg}"


def name_of(value: object) -> str:
    """A test's name: the picture."""
    return value.name if isinstance(value, Path) else out_of(value).name if isinstance(value, Block) else ""


def words_of(block: Block) -> list[str]:
    """The block's command, without ``$ anew``."""
    return shlex.split(block.text.partition("\n")[0].removeprefix("$ "))[1:]


def out_of(block: Block) -> Path:
    """Where its picture goes."""
    words = words_of(block)
    return ROOT / words[words.index("--out") + 1]


def texts(svg: bytes) -> list[str]:
    """The words in a picture."""
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def places(svg: bytes) -> list[list[float]]:
    """The numbers of its dots and steps: all of them in the order of the file, one list a path."""
    paths = [path.get("d", "") for path in ET.fromstring(svg).iter(f"{SVG}path")]
    return [[float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)] for path in paths]


def heats(svg: bytes) -> list[Any]:
    """The cells of its heats, an array each."""
    from matplotlib.image import imread

    found = re.findall(rb'"data:image/png;base64,([^"]+)"', svg)
    return [imread(io.BytesIO(base64.b64decode(data))) for data in found]


def test_there_are_pictures_and_none_that_nobody_shows() -> None:
    assert {picture for _, picture, _ in SHOWN} == set(FOLDER.iterdir())
    assert len(SHOWN) >= 5


@pytest.mark.parametrize(("document", "picture", "above"), SHOWN, ids=name_of)
def test_a_picture_has_its_command_above_it(document: Path, picture: Path, above: Block | None) -> None:
    assert above is not None
    assert out_of(above) == picture
    svg = picture.read_bytes()
    assert ET.fromstring(svg).tag == f"{SVG}svg"
    assert len(svg) < 150_000


@pytest.mark.parametrize("block", DRAWN, ids=name_of)
def test_a_command_draws_the_picture_and_prints_what_is_shown(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Another matplotlib writes other bytes: what is compared is what people see.
    out = out_of(block)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / out.relative_to(ROOT)).parent.mkdir(parents=True)
    assert run(words_of(block)) == 0
    assert capsys.readouterr().out == block.text.partition("\n")[2]
    fresh, kept = (tmp_path / out.relative_to(ROOT)).read_bytes(), out.read_bytes()
    assert texts(fresh) == texts(kept)
    assert [len(path) for path in places(fresh)] == [len(path) for path in places(kept)]
    for one, other in zip(places(fresh), places(kept), strict=True):
        assert one == pytest.approx(other, abs=0.5)
    assert len(heats(fresh)) == len(heats(kept))
    for heat, before in zip(heats(fresh), heats(kept), strict=True):
        assert heat.shape == before.shape
        assert abs(heat - before).max() < 0.02
