"""Figures of results as images that lie in the page itself.

An SVG inside <img> runs no script, loads nothing, and its ids meet no other's.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mars_cli.errors import MarsError
from mars_cli.report.figures import Answers, write_figures
from mars_cli.report.html.tables import text

TITLES = {
    "recovery": "Recovery",
    "speedup": "Speedup, and the A/A noise",
    "theta": "What theta changes",
    "acceptance-position": "Drafts accepted, by position",
    "pareto": "Speedup against recovery",
    "acceptance-length": "Tokens a step",
}


# Broken records, or values that no figure is made for: what was drawn before is still shown.
_NOT_DRAWN = (
    MarsError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OSError,
    RecursionError,
)


def pictures(
    results: Mapping[str, Any], answers: Answers | None = None, recommended: str | None = None
) -> str:
    """Every figure that the results support, as HTML, with a line for those they do not."""
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            write_figures(
                results, Path(folder), answers=answers, recommended=recommended, say=said.append
            )
        except _NOT_DRAWN as error:
            said.append(f"the other figures: not drawn. {error}")
        drawn = sorted(Path(folder).glob("*.svg"), key=lambda path: path.stat().st_mtime_ns)
        found = [_picture(path) for path in drawn]
    lines = "".join(f"<li>{text(line)}</li>" for line in said)
    left_out = f'<ul class="legend">{lines}</ul>' if said else ""
    return f'<div class="pictures">{"".join(found)}</div>{left_out}'


def _picture(path: Path) -> str:
    title = _title(path.stem)
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="{text(title)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{text(title)}</figcaption></figure>\n"
    )


def _title(name: str) -> str:
    for start, title in TITLES.items():
        if name.startswith(start):
            task = name[len(start) :].lstrip("-")
            return f"{title}: {task}" if task else title
    return name
