"""What a wheel brings: the code, `configs/` and `tasks/`, found without the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_an_unpacked_wheel_finds_its_own_configs_and_tasks_and_page(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")

    code = "from mars_cli import resources as r; print(r.configs_dir(), r.tasks_dir())"
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for folder, name in zip(found, ("configs", "tasks"), strict=True):
        assert Path(folder).is_relative_to(tmp_path)
        sources = {
            file.relative_to(ROOT / name)
            for file in (ROOT / name).rglob("*")
            if file.is_file() and file.suffix != ".pyc"
        }
        assert sources
        assert {path for path in sources if not (Path(folder) / path).is_file()} == set()
    assets = {file.name for file in (ROOT / "mars_cli/report/html").glob("page.*")}
    assert {"page.html", "page.css", "page.js"} <= assets
    shipped = tmp_path / "site/mars_cli/report/html"
    assert {name for name in assets if not (shipped / name).is_file()} == set()
