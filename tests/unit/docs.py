"""Reads the documents: their code blocks, their commands, their links. Shared by the tests that hold them against the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(anew [^`\n]+)`(?!`)")
_ASSIGNMENT = re.compile(r"([A-Z]+)=('[^']*')$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\]]+)\]\(([^)\s]+)\)")
_OBJECT = re.compile(r"(?<!`)`(\{[^`\n]+\})`(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    document: Path
    language: str
    text: str


def blocks(document: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a document in these languages."""
    found = _BLOCK.findall(document.read_text("utf-8"))
    return [Block(document, language, text) for language, text in found if language in languages]


def prose(document: Path) -> str:
    """A document without its fenced blocks."""
    return _BLOCK.sub("", document.read_text("utf-8"))


def links(document: Path) -> list[str]:
    """Where a document's links lead."""
    return _LINK.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(block: Block) -> Iterator[list[str]]:
    """The ``anew ...`` commands of a shell block, as words; variables that the block itself sets are filled in."""
    variables: dict[str, str] = {}
    for line in block.text.splitlines():
        if assigned := _ASSIGNMENT.match(line):
            variables[assigned[1]] = assigned[2]
            continue
        for name, value in variables.items():
            line = line.replace(f'"${name}"', value)
        line = line.removeprefix("$ ")
        words = shlex.split(line, comments=True) if line.lstrip().startswith(("anew ", "ANEW_")) else []
        while words and re.fullmatch(r"(ANEW|ZIZQ)_\w+=.*", words[0]):
            words = words[1:]
        if words[:1] == ["anew"]:
            yield words[1 : words.index(">") if ">" in words else None]


def inline_commands(document: Path) -> list[list[str]]:
    """The commands named in running text: ``anew dead list``."""
    return [shlex.split(text)[1:] for text in _INLINE.findall(prose(document))]


def inline_objects(document: Path) -> list[str]:
    """The objects of JSON in running text and tables: ``{"curve": ...}``."""
    return _OBJECT.findall(prose(document))


def draws(block: Block) -> bool:
    """Tell whether a block's command draws a picture into a file."""
    return "--out" in block.text.partition("\n")[0].split()


def pictures(document: Path) -> list[tuple[Path, Block | None]]:
    """The pictures that a document shows, each with the block just above it (None: there is none)."""
    text = document.read_text("utf-8")
    found = []
    for picture in _PICTURE.finditer(text):
        above = list(_BLOCK.finditer(text, 0, picture.start()))
        last = above[-1] if above and not text[above[-1].end() : picture.start()].strip() else None
        block = Block(document, last[1], last[2]) if last else None
        found.append(((document.parent / picture[2]).resolve(), block))
    return found
