"""Many programs, which level is taken, and what a program is shown."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from pathlib import Path

import pytest

from mars_cli.errors import MarsError
from mars_cli.scoring import sandbox
from mars_cli.scoring import sandbox_files as files
from mars_cli.scoring.sandbox import LEVELS, Level, Limits, Outcome
from tests.unit.scoring.sandboxed import in_force, run

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux"),
    pytest.mark.usefixtures("allowed"),
]


def test_a_main_guard_is_not_run_and_dataclasses_find_their_module() -> None:
    program = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass A:\n    x: int\nassert A(1).x == 1\n"
        "if __name__ == '__main__':\n    raise RuntimeError"
    )
    assert run(program, Limits()).passed


def test_the_same_answer_scores_the_same_whatever_the_hash_seed() -> None:
    program = "raise ValueError(hash('a'), list({'a', 'b', 'c', 'd'}))"
    assert run(program, Limits()).reason == run(program, Limits()).reason


def test_many_programs_run_and_keep_their_order() -> None:
    programs = [f"import time\ntime.sleep(0.1)\nassert {i} % 3" for i in range(9)]
    outcomes = sandbox.run_many(programs, Limits(), workers=4)
    assert [outcome.passed for outcome in outcomes] == [i % 3 != 0 for i in range(9)]


def test_many_programs_run_at_once_and_equal_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together, ran = threading.Barrier(3, timeout=60), []

    def instead(program: str, limits: Limits | None = None) -> Outcome:
        together.wait()
        ran.append(program)
        return Outcome("passed", program, 0.0, ())

    monkeypatch.setattr(sandbox, "run", instead)
    outcomes = sandbox.run_many(["a", "b", "a", "c", "b"], workers=3)
    assert [outcome.reason for outcome in outcomes] == ["a", "b", "a", "c", "b"]
    assert sorted(ran) == ["a", "b", "c"]


def test_a_program_that_was_prefetched_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"# {uuid.uuid4()}\n"
    good, bad, later = mark + "pass", mark + "assert False", mark + "x = 1"
    sandbox.prefetch([good, bad, good])
    ran: list[str] = []

    def instead(program: str, limits: Limits | None = None) -> Outcome:
        ran.append(program)
        return Outcome("passed", "", 0.0, ())

    monkeypatch.setattr(sandbox, "run", instead)
    sandbox.prefetch([bad, later])
    assert [sandbox.passes(program) for program in (good, bad, later)] == [True, False, True]
    assert ran == [later]


def test_many_programs_are_refused_too() -> None:
    program = f"# {uuid.uuid4()}"
    assert sandbox.passes(program)
    sandbox.allow(False)
    sandbox.prefetch([program + "\npass"])  # a task may ask without knowing
    for refused in (sandbox.passes, lambda text: sandbox.run_many([text])):
        with pytest.raises(MarsError, match="not allowed"):
            refused(program)


def test_isolation_is_that_of_the_first_level_that_works() -> None:
    first = next(level for level in LEVELS if sandbox.works(level))
    assert sandbox.isolation() == in_force(first)
    assert run("").isolation == sandbox.isolation()


def test_the_page_says_what_the_limits_are_and_explains_every_word() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text(encoding="utf-8")
    limits = Limits()
    mib = {
        "a file": limits.file_bytes,
        "`/tmp`": limits.tmp_bytes,
        "what is printed": limits.output_bytes,
    }
    rows = {
        "wall clock": f"{limits.seconds:g} s",
        "CPU time": f"{limits.cpu_seconds} s",
        "memory": f"{limits.memory_bytes / 2**30:g} GiB",
        "processes": str(limits.processes),
        **{name: f"{size / 2**20:g} MiB" for name, size in mib.items()},
    }
    table = page.partition("## Limits")[2].partition("## What counts")[0]
    for name, value in rows.items():
        found = [
            row.split("|")[2].strip() for row in table.splitlines() if row[2:].startswith(name)
        ]
        assert found == [value], name
    for word in {word for level in LEVELS if sandbox.works(level) for word in in_force(level)}:
        assert f"`{word}`" in page, word


def test_a_bwrap_that_cannot_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    caches = (sandbox._isolation, sandbox.works, sandbox.best)
    try:
        for cached in caches:
            cached.cache_clear()
        with pytest.raises(MarsError, match="No permissions to create new namespace"):
            run("", level="bubblewrap")
        assert sandbox.best() != "bubblewrap"
        assert run("").passed
    finally:
        for cached in caches:
            cached.cache_clear()


def test_without_bwrap_there_is_no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert files.bubblewrap(files.view([]), 1 << 20) == []


def test_what_is_needed_is_seen_even_under_tmp_and_stays_read_only(
    own_files: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needed").mkdir()
    (tmp_path / "needed" / "file").write_text("seen")
    (tmp_path / "link").symlink_to("needed")
    (tmp_path / "other").write_text("not seen")
    shown = files.view([str(sandbox._CHILD), str(tmp_path / "link")])
    monkeypatch.setattr(sandbox, "_view", lambda: shown)
    program = (
        f"import os\nos.chdir({str(tmp_path)!r})\nassert open('link/file').read() == 'seen'\n"
        "assert sorted(os.listdir('.')) == ['link', 'needed']\n"
        "assert os.statvfs('link/file').f_flag & os.ST_RDONLY\n"
        "try:\n    open('link/file', 'a')\nexcept OSError:\n    pass\nelse:\n    assert False\n"
    )
    outcome = run(program, Limits(), own_files)
    assert outcome.passed, outcome


def test_a_home_is_never_shown_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "python").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    shown = files.view([str(home), str(tmp_path), str(home / "python")])
    assert str(home / "python") in shown.binds
    assert not {str(home), str(tmp_path)} & set(shown.binds)
