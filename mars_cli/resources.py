"""Where the files shipped beside the code lie: `configs/` and `tasks/`.

In a checkout (and an editable install) they are top-level folders; a wheel carries copies inside
the package. A folder inside the package wins, so an installed `mars` never reads what happens to
lie next to it.
"""

from __future__ import annotations

from pathlib import Path

from mars_cli.errors import MarsError

_PACKAGE = Path(__file__).resolve().parent


def configs_dir() -> Path:
    """The folder holding `models/*.yaml` and `sweeps/*.yaml`."""
    return _shipped("configs")


def tasks_dir() -> Path:
    """The folder holding our own task definitions, `mars_*.yaml`, and their code."""
    return _shipped("tasks")


def _shipped(name: str, package: Path = _PACKAGE) -> Path:
    installed, checkout = package / "_data" / name, package.parent / name
    for folder in (installed, checkout):
        if folder.is_dir():
            return folder
    raise MarsError(
        f"the {name}/ folder shipped with mars is missing: neither {installed} nor {checkout}",
        hint="reinstall the package, or run from a complete checkout",
    )
