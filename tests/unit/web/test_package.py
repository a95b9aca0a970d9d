"""The wheel carries what pages are made of: templates, our own files, and the vendored ones with their licences."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from anew.web.assets import Assets

from .vendored import manifest

ROOT = Path(__file__).resolve().parents[3]


def test_the_wheel_has_all_files_of_the_pages(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    vendored = {f"anew/web/vendor/{file.path}" for library in manifest() for file in library.files}
    own = {f"anew/web/static/{name}" for name in Assets().by_name} - {
        f"anew/web/static/{name.rpartition('/')[2]}" for name in vendored
    }
    templates = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/anew/web").glob("*/templates/*.html")
    }
    wanted = {"anew/web/vendor/manifest.json", *vendored, *own, *templates}
    assert len(templates) > 15
    assert wanted <= names
