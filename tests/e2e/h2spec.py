"""`make h2spec`: the public conformance tests of HTTP/2 (github.com/summerwind/h2spec) against a server of its own.

Not among the tests: h2spec is a Go program, and is built from the Go module proxy where it is not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from .server import ServerProcess

MODULE = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"

PATH = "/jobs"
"""A route with GET and POST: where there is no POST, a request is answered before the body that a case is about."""

CASES = 145

_TABLE = (
    "It announces a dynamic table of 128 bytes or more after our SETTINGS_HEADER_TABLE_SIZE of 0, which RFC 7541 section 6.3 "
    "makes a decoding error; hpack/6.3 asks for just that error with 1 byte. The size is 0 because blocks without state need "
    "not be decoded again (see src/anew/net/http2/hpack.py)."
)

EXCEPTIONS = {
    ("generic/5", "Sends a dynamic table size update"): _TABLE,
    ("generic/5", "Sends multiple dynamic table size update"): _TABLE,
    ("http2/3.5", "Sends invalid connection preface"): (
        "The port speaks HTTP/1.1 too. What is no preface is answered as HTTP/1.1, 400, and then closed; h2spec takes the "
        "answer for a broken frame."
    ),
}
"""Cases that fail on purpose, by package and description, and why."""


def program() -> str:
    """Give h2spec's path; build it beside this Python if there is none.

    Raises:
        SystemExit: There is no Go to build it with, or it cannot be built.
    """
    place = Path(sys.executable).parent
    found = shutil.which("h2spec") or shutil.which("h2spec", path=place)
    if found:
        return found
    go = shutil.which("go")
    if go is None:
        raise SystemExit(
            "h2spec is not installed, and Go, which builds it, is absent: see https://go.dev/dl/"
        )
    print(f"building {MODULE} (once)", flush=True)
    built = subprocess.run([go, "install", MODULE], env={**os.environ, "GOBIN": str(place)}, check=False)
    if built.returncode:
        raise SystemExit(f"{MODULE} cannot be built")
    return str(place / "h2spec")


def run(h2spec: str) -> dict[tuple[str, str], bool]:
    """Run all cases; give for each whether it passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        server = ServerProcess(Path(folder) / "data")
        try:
            host, port = server.address
            line = [h2spec, "-h", host, "-p", str(port), "-P", PATH, "-j", str(report)]
            subprocess.run(line, stdout=subprocess.DEVNULL, check=False)
        finally:
            server.close()
        complaints = server.new_complaints()
        if complaints:
            raise SystemExit("the server logged what nobody handled:\n" + "\n".join(complaints))
        cases = ElementTree.parse(report).iter("testcase")
        return {(case.attrib["package"], case.attrib["classname"]): len(case) == 0 for case in cases}


def main() -> int:
    """Run h2spec and judge its report: 0 if every case passes or is a known exception, else 1."""
    passed = run(program())
    failed = {case for case, good in passed.items() if not good}
    print(f"{len(passed)} cases, {len(passed) - len(failed)} passed")
    for package, case in sorted(failed & EXCEPTIONS.keys()):
        print(f"  on purpose: {package}: {case}\n    {EXCEPTIONS[package, case]}")
    problems = [f"failed: {package}: {case}" for package, case in sorted(failed - EXCEPTIONS.keys())]
    problems += [
        f"an exception that passes: {package}: {case}" for package, case in EXCEPTIONS.keys() - failed
    ]
    if len(passed) != CASES:
        problems.append(f"{CASES} cases were expected")
    print("\n".join(problems) or "all as expected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
