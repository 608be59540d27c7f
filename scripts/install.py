"""Make the virtual environment: `python -m scripts.install [.venv]` (what `make venv` runs).

Installs exactly what requirements/cpu.lock lists, in phases, one line each; all that pip says goes
to `install.log` inside the environment and is shown only when a phase fails. Runs before anything
is installed, hence on the standard library alone and with pip as old as Python 3.11 brings it.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "cpu.lock"

# PyTorch's own index, asked only when the default one does not have the CPU build.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# Ships as source and needs a C compiler. Only one puzzle of reasoning-gym calls it, so a machine
# without a compiler goes without.
NEEDS_COMPILER = ("pycosat",)

# Source packages are built with the setuptools of the lock, so it has to come first.
FIRST = ("setuptools", "torch")

HEARTBEAT_S = 60.0


def read_lock(text: str) -> list[str]:
    """The requirements of a lock file, without comments and blank lines."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def phases(lock: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Split into (first, rest, needs a compiler); each keeps the order of the lock."""

    def named(names: tuple[str, ...]) -> list[str]:
        return [line for line in lock if line.split("==")[0] in names]

    first, compiled = named(FIRST), named(NEEDS_COMPILER)
    return first, [line for line in lock if line not in {*first, *compiled}], compiled


def main(argv: list[str]) -> int:
    """Make or complete the environment in `argv[0]`; 0 when everything needed is in it."""
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        say(f"Python 3.11, 3.12 or 3.13 is needed; {sys.executable} is {sys.version.split()[0]}.")
        say("Name another one: make venv PYTHON=/path/to/python3.11")
        return 2
    if sys.version_info[:2] != (3, 11):
        say(f"note: the lock was made with Python 3.11; this is {sys.version.split()[0]}.")
    target = Path(argv[0] if argv else ROOT / ".venv").resolve()
    first, rest, compiled = phases(read_lock(LOCK.read_text(encoding="utf-8")))

    say(f"[1/6] environment in {target}")
    python = make_environment(target)
    installer = Installer(python, target / "install.log")

    torch = next(line for line in first if line.startswith("torch=="))
    say(f"[2/6] {torch}, the largest download (about 200 MB)")
    if not installer.run(first) and not (
        installer.not_found("torch") and retry_elsewhere(installer, first)
    ):
        return installer.explain()

    say(f"[3/6] vLLM and the other packages of the lock, {len(rest)} in all (a few minutes)")
    if not installer.run(rest):
        return installer.explain()

    say(f"[4/6] {', '.join(compiled)}, built from source")
    if compiled and not installer.run(compiled):
        say("      no: it needs a C compiler and Python's headers. Left out: only reasoning-gym's")
        say("      zebra puzzles need it.")

    say("[5/6] mars itself, editable")
    if not installer.run(["--editable", str(ROOT)]):
        return installer.explain()

    say("[6/6] byte code, so that no start has to compile what it imports")
    installer.compile()
    say(f"done: {target / 'bin' / 'mars'}")
    return 0


def make_environment(target: Path) -> Path:
    """A virtual environment whose pip answers; one left half-made is made again."""
    python = target / "bin" / "python"
    probe = [str(python), "-m", "pip", "--version"]
    if not python.exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
        venv.create(target, clear=True, with_pip=True)
    return python


def retry_elsewhere(installer: Installer, requirements: list[str]) -> bool:
    """The one retry: with PyTorch's CPU index beside the default one."""
    say(f"      not on the default index; trying {TORCH_CPU_INDEX}")
    return installer.run([*requirements, "--extra-index-url", TORCH_CPU_INDEX])


class Installer:
    """Runs the environment's pip, keeping what it says in a log."""

    def __init__(self, python: Path, log: Path) -> None:
        self.python = str(python)
        self.command = [
            *(self.python, "-m", "pip", "install", "--no-deps", "--no-build-isolation"),
            *("--use-pep517", "--no-compile", "--no-input", "--progress-bar", "off"),
            *("--disable-pip-version-check", "--root-user-action", "ignore"),
        ]
        self.log = log
        self.last = ""

    def run(self, arguments: list[str]) -> bool:
        """Install; True on success."""
        return self._run([*self.command, *arguments])

    def _run(self, command: list[str]) -> bool:
        """True on success. Prints a line a minute, so that a slow phase is no silence."""
        started = beat = time.monotonic()
        with self.log.open("ab") as log:
            begin = log.tell()
            with subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            ) as process:
                while process.poll() is None:
                    time.sleep(0.2)
                    if time.monotonic() - beat > HEARTBEAT_S:
                        beat = time.monotonic()
                        say(f"      ... {beat - started:.0f} s")
        with self.log.open("rb") as log:
            log.seek(begin)
            self.last = log.read().decode("utf-8", "replace")
        if process.returncode == 0:
            say(f"      {time.monotonic() - started:.0f} s")
        return process.returncode == 0

    def compile(self) -> None:
        """Compile all that is installed, on all cores; what is no Python 3.11 stays as it is.

        Left to Python, each process would, wherever it may not write (PYTHONDONTWRITEBYTECODE).
        """
        code = "import compileall, sysconfig as s; "
        code += "compileall.compile_dir(s.get_path('purelib'), quiet=2, workers=0)"
        self._run([self.python, "-c", code])

    def not_found(self, package: str) -> bool:
        """Whether the last run failed because no index has `package` in that version.

        pip calls that a conflict when a constraints file names the package too.
        """
        verdicts = ("No matching distribution found for", "Cannot install")
        return any(f"{verdict} {package}==" in self.last for verdict in verdicts)

    def explain(self) -> int:
        """Print the end of the last run; the exit code to leave with."""
        say("pip failed. The end of what it said:")
        for line in self.last.splitlines()[-20:]:
            say(f"    {line}")
        say(f"All of it is in {self.log}. Run `make venv` again to go on from here.")
        return 1


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
