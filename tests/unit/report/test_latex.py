"""LaTeX itself takes what `--format latex` gives, and no table is wider than the page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mars_cli.analysis.stored import Stored
from mars_cli.report.gathered import Gathered
from mars_cli.report.render import as_text
from tests.unit.report import made
from tests.unit.report.test_golden import GOLDEN
from tests.unit.report.test_hostile import PIECES

PAGE = r"""\documentclass{article}
\usepackage{booktabs,graphicx}
\begin{document}
%s\end{document}
"""
needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")


@needs_latex
@pytest.mark.parametrize("name", ["one.tex", "two.tex", "list.tex"])
def test_the_golden_files_compile_and_fit_the_page(tmp_path, name):
    said = compiled((GOLDEN / name).read_text(encoding="utf-8"), tmp_path)
    assert "Overfull" not in said


@needs_latex
def test_hostile_names_and_notes_compile(tmp_path):
    results = made.by_hand()
    lanes = results["tasks"][made.TASK]["lanes"]
    for number, piece in enumerate(PIECES):
        lanes[f"{piece} {number}"] = lanes[made.MARS]
    results["tasks"][made.TASK]["notes"] = PIECES
    found = Gathered([Stored(Path("/nowhere"), {}, results)])
    compiled(as_text(found, "latex", None), tmp_path)


def compiled(text: str, folder: Path) -> str:
    """What pdflatex says of `text` in a page; an AssertionError if it is not content."""
    (folder / "page.tex").write_text(PAGE % text, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout
