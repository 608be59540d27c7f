"""What a generated program may not do, tried out."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mars_cli.errors import MarsError
from mars_cli.scoring import sandbox
from mars_cli.scoring.sandbox import Limits, Outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")

QUICK = Limits(seconds=1.5, cpu_seconds=5, memory_bytes=256 << 20, file_bytes=1 << 20, processes=16)


@pytest.fixture(autouse=True)
def _allowed() -> Iterator[None]:
    sandbox.allow()
    yield
    sandbox.allow(False)


def run(program: str, limits: Limits = QUICK) -> Outcome:
    return sandbox.run(program, limits)


def naming(name: str) -> str:
    """A line of Python with which a process names itself (a changed user may not write `comm`)."""
    return f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r})\n"


def named(name: str) -> list[int]:
    """The processes that gave themselves `name`."""
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() == name:
                found.append(int(comm.parent.name))
    return found


def until(condition: object, seconds: float = 20.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_a_program_whose_tests_run_to_their_end_passes() -> None:
    outcome = run(
        "def f(x):\n    return x + 1\n\ndef check(c):\n    assert c(1) == 2\n\ncheck(f)\n"
    )
    assert outcome.passed
    assert outcome.status == "passed"
    assert outcome.reason == ""
    assert "limits" in outcome.isolation


def test_nothing_runs_unless_it_was_allowed(tmp_path: Path) -> None:
    sandbox.allow(False)
    with pytest.raises(MarsError, match="not allowed") as caught:
        run(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert "--allow-code-execution" in (caught.value.hint or "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("assert 1 == 2", "AssertionError at line 1: assert 1 == 2"),
        ("def f(:", "SyntaxError"),
        ("x = '\0'", "null bytes"),
        ("x = '\ud800'", "surrogates"),
        (
            "def f(x):\n    return y\nf(1)",
            "NameError (name 'y' is not defined) at line 2: return y",
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("f = lambda n: f(n + 1)\nf(0)", "RecursionError"),
    ],
)
def test_an_exception_fails_and_says_where(program: str, reason: str) -> None:
    outcome = run(program)
    assert outcome.status == "failed"
    assert reason in outcome.reason


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nsys.exit(0)",
        "raise SystemExit",
        "import os\nos._exit(0)",
        "print('passed')\nimport os\nos._exit(0)",
        "import os\nfor fd in range(64):\n"
        '    try:\n        os.write(fd, b\'{"token": "passed"}\\n\')\n'
        "    except OSError:\n        pass\nos._exit(0)",
        "import os\nos.close(3)",
        "import threading, os\nthreading.Thread(target=lambda: os._exit(0)).start()\n"
        "import time\ntime.sleep(60)",
        "import os\nif os.fork() == 0:\n    os._exit(0)\nos._exit(0)",
    ],
)
def test_an_end_before_the_end_of_the_tests_is_not_a_pass(program: str) -> None:
    assert run(program + "\nassert False").status == "failed"


def test_an_endless_loop_is_stopped_by_the_wall_clock() -> None:
    outcome = run("while True:\n    pass")
    assert outcome.status == "timeout"
    assert "1.5 s" in outcome.reason


def test_sleeping_and_ignoring_signals_does_not_help() -> None:
    program = (
        "import signal, time\nfor n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)"
    )
    outcome = run(program)
    assert outcome.status == "timeout"
    assert outcome.seconds < 20


def test_cpu_time_is_limited_too() -> None:
    outcome = run("while True:\n    pass", Limits(seconds=60, cpu_seconds=1))
    assert outcome.status == "timeout"
    assert "CPU" in outcome.reason


def test_a_memory_bomb_fails() -> None:
    assert run("x = bytearray(1 << 30)").reason == "MemoryError"
    grown = run(
        "x = []\nwhile True:\n    x.append(bytearray(1 << 24))", Limits(memory_bytes=256 << 20)
    )
    assert grown.reason == "MemoryError"


def test_a_fork_bomb_meets_the_limit_and_leaves_nothing() -> None:
    name = f"bomb{uuid.uuid4().hex[:8]}"
    bomb = naming(name) + (
        "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)\n"
    )
    outcome = run(bomb, Limits(seconds=20, processes=16))
    assert outcome.status == "failed"
    assert "BlockingIOError" in outcome.reason
    assert until(lambda: not named(name))


def test_threads_count_as_processes() -> None:
    program = (
        "import threading, time\nfor _ in range(3000):\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start()"
    )
    assert "can't start new thread" in run(program, Limits(seconds=20, processes=16)).reason


@pytest.mark.parametrize(
    "program",
    [
        "while True:\n    print('x' * 100000)",
        "import sys\nwhile True:\n    sys.stderr.write('x' * 100000)",
        "open('big', 'wb').write(b'x' * (2 << 20))",
        "import os\nos.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 40)",
    ],
)
def test_output_and_files_are_limited_in_size(program: str) -> None:
    assert "File too large" in run(program).reason


def test_output_within_the_limit_does_no_harm() -> None:
    assert run("print('x' * 100000)").passed


def test_the_working_directory_is_empty_and_gone_afterwards() -> None:
    before = set(Path(tempfile.gettempdir()).glob("mars-sandbox-*"))
    program = (
        "import os\nassert os.listdir('.') == []\n"
        "assert os.environ['HOME'] == os.environ['TMPDIR'] == os.getcwd()\n"
        "os.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nos.symlink('/', 'a/root')\n"
        "os.chmod('a/b', 0)\nos.chmod('a', 0)\nos.chmod('.', 0)"
    )
    assert run(program).passed
    assert set(Path(tempfile.gettempdir()).glob("mars-sandbox-*")) <= before


def test_the_environment_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "MARS_DATA", "OPENAI_API_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    assert run("import os\nassert 'secret' not in os.environ.values(), dict(os.environ)").passed


def test_stdin_is_empty_and_no_file_of_ours_is_open() -> None:
    assert "EOFError" in run("input()").reason
    with open(os.devnull) as ours:
        os.set_inheritable(ours.fileno(), True)
        # 0, 1, 2, the report, and the one that lists them
        program = "import os\nassert len(os.listdir('/proc/self/fd')) == 5"
        assert run(program).passed


def test_daemons_in_sessions_of_their_own_are_killed() -> None:
    name = f"left{uuid.uuid4().hex[:8]}"
    program = naming(name) + (
        "import os, time\nread, write = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0:\n        os.write(write, b'x')\n        time.sleep(60)\n"
        "    os._exit(0)\nassert os.read(read, 1) == b'x'\n"
    )
    assert run(program, Limits()).passed
    assert until(lambda: not named(name))


def test_a_program_that_attacks_its_supervisor_does_not_pass_or_harm_us() -> None:
    assert run(
        "import os, signal\nos.kill(0, signal.SIGKILL)\nimport time\ntime.sleep(60)"
    ).status in (
        "crashed",
        "timeout",  # the first process of a namespace is immune to itself
    )
    outcome = run("import os, signal\nos.kill(os.getppid() or 1, signal.SIGKILL)\nassert False")
    assert outcome.status in ("crashed", "failed")


def test_a_crash_of_the_interpreter_is_told_from_a_wrong_answer() -> None:
    outcome = run("import ctypes\nctypes.string_at(0)")
    assert outcome.status == "crashed"
    assert "SIGSEGV" in outcome.reason


def test_a_main_guard_is_not_run_and_dataclasses_find_their_module() -> None:
    assert run("if __name__ == '__main__':\n    raise RuntimeError").passed
    program = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass A:\n    x: int\nassert A(1).x == 1"
    )
    assert run(program).passed


def test_the_same_answer_scores_the_same_whatever_the_hash_seed() -> None:
    program = "raise ValueError(hash('a'), list({'a', 'b', 'c', 'd'}))"
    assert run(program).reason == run(program).reason


def test_programs_in_several_threads_do_not_disturb_each_other() -> None:
    programs = [f"import time\ntime.sleep(0.1)\nassert {i} % 2 == 0" for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda program: run(program, Limits()), programs))
    assert [outcome.passed for outcome in outcomes] == [i % 2 == 0 for i in range(8)]


def test_the_program_dies_with_us() -> None:
    name = f"orph{uuid.uuid4().hex[:8]}"
    program = naming(name) + "import time\ntime.sleep(300)"
    ours = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nsys.path[:0] = sys.argv[1:2]\nfrom mars_cli.scoring import sandbox\n"
            "sandbox.allow()\nsandbox.run(sys.argv[2], sandbox.Limits(seconds=300))",
            str(Path(sandbox.__file__).parents[2]),
            program,
        ]
    )
    try:
        assert until(lambda: named(name))
    finally:
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    assert until(lambda: not named(name))


def test_isolation_says_what_is_in_force_and_a_namespace_has_no_network() -> None:
    found = sandbox.isolation()
    assert found[0] == "limits"
    if "no network" not in found:
        pytest.skip("neither root nor unprivileged user namespaces here")
    program = "import socket\nsocket.create_connection(('127.0.0.1', 9), 1)"
    assert "unreachable" in run(program).reason


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root drops users")
def test_root_does_not_stay_root(tmp_path: Path) -> None:
    if not any(item.startswith("own user") for item in sandbox.isolation()):
        pytest.skip("this root may not change its user")
    assert run("import os\nassert 0 not in (os.getuid(), os.geteuid(), os.getgid())").passed
    assert "PermissionError" in run(f"open({str(tmp_path / 'x')!r}, 'w')").reason
    assert "PermissionError" in run("import os\nos.setuid(0)").reason
