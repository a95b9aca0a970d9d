"""Run the documents' examples again and write what they print, and the pictures they draw: ``make examples``.

The tests hold every example against the program. Where the program has changed on purpose, this changes the documents;
what came of it wants to be read.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

from anew.cli.root import run

from .docs import DOCUMENTS, ROOT, Block, blocks, commands, draws


def printed(block: Block) -> str:
    """What a block's command prints now; a picture's size goes to stderr and is not shown."""
    (words,) = commands(Block(block.document, "console", block.text.partition("\n")[0]))
    out = _utf8()
    err = _utf8() if draws(block) else out
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        run(words)
    out.seek(0)
    return out.read()


def _utf8() -> io.TextIOWrapper:
    # A StringIO has no encoding, and programs draw with ASCII where they do not know better.
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")


def renew(document: Path) -> bool:
    """Write a document's examples anew; tell whether anything has changed."""
    text = before = document.read_text("utf-8")
    for block in blocks(document, "console"):
        command, _, _ = block.text.partition("\n")
        text = text.replace(f"```console\n{block.text}```", f"```console\n{command}\n{printed(block)}```")
    if text != before:
        document.write_text(text, "utf-8")
    return text != before


def main() -> None:
    """Renew every document."""
    os.environ["COLUMNS"] = "80"
    os.chdir(ROOT)
    for document in DOCUMENTS:
        if renew(document):
            print(f"changed: {document.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
