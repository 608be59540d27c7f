"""What a generated program may not do, tried out at every level that this machine offers."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mars_cli.errors import MarsError
from mars_cli.scoring import sandbox
from mars_cli.scoring import sandbox_files as files
from mars_cli.scoring.sandbox import LEVELS, Level, Limits, Outcome
from tests.unit.scoring.sandboxed import QUICK, SLOW, in_force, named, naming, run, until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux"),
    pytest.mark.usefixtures("allowed"),
]


def test_nothing_runs_unless_it_was_allowed(tmp_path: Path) -> None:
    sandbox.allow(False)
    with pytest.raises(MarsError, match="not allowed") as caught:
        run(f"open({str(tmp_path / 'ran')!r}, 'w')", level="limits")
    assert "--allow-code-execution" in (caught.value.hint or "")
    assert not (tmp_path / "ran").exists()


# Name: program, limits, status, what the reason says. All run at once, see `outcomes`.
BOMB = f"bomb{uuid.uuid4().hex[:8]}"
ATTACKS: dict[str, tuple[str, Limits, str, str]] = {
    "an endless loop": ("while True:\n    pass", QUICK, "timeout", "still running after 1 s"),
    "ignoring every signal": (
        "import signal, time\nfor n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)",
        QUICK,
        "timeout",
        "still running",
    ),
    "burning CPU": (
        "while True:\n    pass",
        Limits(seconds=60, cpu_seconds=1),
        "timeout",
        "1 s of CPU time",
    ),
    "a memory bomb": ("x = bytearray(1 << 30)", QUICK, "failed", "MemoryError"),
    "a growing memory bomb": (
        "x = []\nwhile True:\n    x.append(bytearray(1 << 24))",
        Limits(memory_bytes=256 << 20),
        "failed",
        "MemoryError",
    ),
    "a fork bomb": (
        naming(BOMB)
        + "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)\n",
        SLOW,
        "failed",
        "BlockingIOError",
    ),
    "threads without end": (
        "import threading, time\nfor _ in range(3000):\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start()",
        SLOW,
        "failed",
        "can't start new thread",
    ),
    "a gigabyte of output": (
        "for _ in range(10000):\n    print('x' * 100000)",
        SLOW,
        "failed",
        "printed more than 1048576 bytes",
    ),
    "errors without end": (
        "import sys\nwhile True:\n    sys.stderr.write('x' * 100000)",
        SLOW,
        "failed",
        "printed more than",
    ),
    "output of another program": (
        "import os\nos.execvp('yes', ['yes'])",
        SLOW,
        "failed",
        "printed more than",
    ),
    "a large file": ("open('big', 'wb').write(b'x' * (2 << 20))", QUICK, "failed", "File too larg"),
    "a sparse file": (
        "import os\nos.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 40)",
        QUICK,
        "failed",
        "File too large",
    ),
    "deleting its own files": (
        "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)\nassert False",
        QUICK,
        "failed",
        "AssertionError",
    ),
    "killing its group": (
        "import os, signal\nos.kill(0, signal.SIGTERM)\nimport time\ntime.sleep(60)",
        QUICK,
        "crashed timeout",  # the first process of a namespace is immune to itself
        "",
    ),
    "killing its parent": (
        "import os, signal\nos.kill(os.getppid() or 1, signal.SIGKILL)\nassert False",
        QUICK,
        "crashed failed",
        "",
    ),
    "reading its parent's memory": (
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')",
        QUICK,
        "failed",
        "Error ([Errno",
    ),
    "crashing the interpreter": (
        "import ctypes\nctypes.string_at(0)",
        QUICK,
        "crashed",
        "SIGSEGV",
    ),
    "sys.exit": ("import sys\nsys.exit(0)", QUICK, "failed", "exited (code 0) before"),
    "SystemExit": ("raise SystemExit", QUICK, "failed", "exited (code None) before"),
    "os._exit": ("import os\nos._exit(0)", QUICK, "failed", "exited with code 0 before"),
    "a printed success line": (
        "print('passed')\nimport os\nos._exit(0)",
        QUICK,
        "failed",
        "exited with code 0",
    ),
    "a forged report": (
        "import os\nfor fd in range(64):\n"
        '    try:\n        os.write(fd, b\'\\n{"token": "passed", "status": "passed"}\\n\')\n'
        "    except OSError:\n        pass\nos._exit(0)",
        QUICK,
        "failed",
        "",
    ),
    "a report without end": (
        "import os\nwhile True:\n    os.write(3, b'x' * 4096)",
        QUICK,
        "timeout",
        "still running",
    ),
    "closing the report": ("import os\nos.close(3)\nassert False", QUICK, "failed", ""),
    "an exit from a thread": (
        "import threading, os\nthreading.Thread(target=lambda: os._exit(0)).start()\n"
        "import time\ntime.sleep(60)",
        QUICK,
        "failed",
        "exited with code 0",
    ),
    "an exit from a fork": (
        "import os\nif os.fork() == 0:\n    os._exit(0)\nos._exit(0)",
        QUICK,
        "failed",
        "exited with code 0",
    ),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[Level, str], Outcome]:
    """Of every attack at every level of this machine, several at a time."""
    sandbox.allow()
    work = [(level, name) for name in ATTACKS for level in LEVELS if sandbox.works(level)]

    def attack(item: tuple[Level, str]) -> Outcome:
        program, limits, _, _ = ATTACKS[item[1]]
        return run(program, limits, item[0])

    with ThreadPoolExecutor(6) as pool:
        return dict(zip(work, pool.map(attack, work), strict=True))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_contained(
    name: str, level: Level, outcomes: dict[tuple[Level, str], Outcome]
) -> None:
    outcome, (_, _, statuses, reason) = outcomes[level, name], ATTACKS[name]
    assert outcome.status in statuses.split(), outcome
    assert reason in outcome.reason
    assert outcome.seconds < 60


def test_a_fork_bomb_leaves_nothing(outcomes: dict[tuple[Level, str], Outcome]) -> None:
    assert any(name == "a fork bomb" for _, name in outcomes)
    assert until(lambda: not named(BOMB))


def test_a_program_whose_tests_run_to_their_end_passes(level: Level) -> None:
    program = (
        "import decimal, json, sqlite3, uuid\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "def f(x):\n    return x + 1\n\ndef check(c):\n    assert c(1) == 2\n\ncheck(f)\n"
        "print('x' * 10000)\nopen('file', 'w').write('x' * 10000)\n"
    )
    outcome = run(program, Limits(), level)
    assert (outcome.status, outcome.reason) == ("passed", "")
    assert outcome.isolation[0] == level
    assert "limits" in outcome.isolation


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
        ("input()", "EOFError"),
    ],
)
def test_an_exception_fails_and_says_where(program: str, reason: str) -> None:
    outcome = run(program, Limits())
    assert outcome.status == "failed"
    assert reason in outcome.reason


def test_the_disk_cannot_be_filled_with_many_files(own_files: Level) -> None:
    if own_files == "bubblewrap" and not files._limits_size("bwrap"):
        pytest.skip("this bwrap cannot limit the size of /tmp")
    program = "for i in range(100):\n    open(f'/tmp/{i}', 'wb').write(b'x' * (1 << 19))"
    assert "No space left" in run(program, Limits(tmp_bytes=4 << 20), own_files).reason


def test_the_working_directory_is_empty_and_gone_afterwards(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.access("/dev/shm", os.W_OK):  # in memory: a disk takes long to delete deep folders
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    before = set(Path(tempfile.gettempdir()).glob("mars-sandbox-*"))
    program = (
        "import os\nassert os.listdir('.') == []\n"
        "assert os.environ['HOME'] == os.environ['TMPDIR'] == os.getcwd()\n"
        "os.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nos.symlink('/', 'a/root')\n"
        "here = os.getcwd()\nfor _ in range(1100):\n    os.mkdir('deep')\n    os.chdir('deep')\n"
        "os.chdir(here)\nfor path in ('a/b', 'a', 'deep', '.'):\n    os.chmod(path, 0)\n"
    )
    outcome = run(program, SLOW, level)
    assert outcome.passed, outcome
    assert set(Path(tempfile.gettempdir()).glob("mars-sandbox-*")) <= before


def test_a_link_in_place_of_its_folder_leads_nowhere(level: Level, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "inside").mkdir(parents=True)
    (victim / "inside" / "file").write_text("ours")
    (victim / "inside").chmod(0o555)
    before = set(Path(tempfile.gettempdir()).glob("mars-sandbox-*"))
    program = (
        "import os\nhere = os.getcwd()\nfor path in (here, os.path.dirname(here)):\n"
        "    try:\n        os.rename(path, path + '-gone')\n"
        f"        os.symlink({str(victim)!r}, path)\n    except OSError:\n        pass\n"
    )
    run(program, Limits(), level)
    assert (victim / "inside" / "file").read_text() == "ours"
    assert stat.S_IMODE((victim / "inside").stat().st_mode) == 0o555
    # What a plain user's program moved away is its own affair; nothing keeps the name.
    left = set(Path(tempfile.gettempdir()).glob("mars-sandbox-*")) - before
    assert all(path.name.endswith("-gone") for path in left)
    for path in left:
        files.remove(str(path))


def test_removing_a_folder_spares_what_its_links_point_at(tmp_path: Path) -> None:
    victim, folder, link = (tmp_path / name for name in ("victim", "folder", "link"))
    (victim / "inside").mkdir(parents=True)
    (victim / "inside").chmod(0o555)
    (folder / "closed" / "deeper").mkdir(parents=True)
    (folder / "closed" / "to").symlink_to(victim)
    (folder / "closed").chmod(0)
    link.symlink_to(victim)
    files.remove(str(folder))
    files.remove(str(link))
    assert list(tmp_path.iterdir()) == [victim]
    assert stat.S_IMODE((victim / "inside").stat().st_mode) == 0o555


def test_home_and_data_cannot_be_read(
    own_files: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = os.path.expanduser("~")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    program = (
        "import os\nfor path in {paths!r}:\n    os.symlink(path, 'link')\n"
        "    for name in (path, 'link'):\n        try:\n            open(name)\n"
        "        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:\n"
        "            if isinstance(error, IsADirectoryError):\n"
        "                assert not set(os.listdir(path)) - {known!r}, os.listdir(path)\n"
        "        else:\n            raise RuntimeError(path)\n    os.unlink('link')\n"
    )
    # Of a home nothing is seen but the way to the interpreter, if it lies there.
    known = {part for path in files.view([]).binds for part in Path(path).parts}
    paths = [str(secret), "/etc/passwd", "/etc/shadow", home, "/var", "/sys"]
    outcome = run(program.format(paths=paths, known=known), Limits(), own_files)
    assert outcome.passed, outcome


def test_no_other_process_can_be_looked_into(own_files: Level) -> None:
    program = (
        "import os\nfor pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if int(pid) == int(os.readlink('/proc/self')):\n        continue\n"
        "    for name in ('environ', 'mem', 'maps'):\n        try:\n"
        "            open(f'/proc/{pid}/{name}', 'rb').read(1)\n        except OSError:\n"
        "            continue\n        raise RuntimeError(pid, name)\n"
        "assert len(list(filter(str.isdigit, os.listdir('/proc')))) < 5\n"
    )
    outcome = run(program, Limits(), own_files)
    assert outcome.passed, outcome


def test_nothing_outside_its_folder_can_be_written(own_files: Level, tmp_path: Path) -> None:
    places = ["/", "/usr", "/dev", "/var/tmp", "/root", "/home", sys.prefix, sys.base_prefix]
    name = uuid.uuid4().hex
    program = (
        f"import os\nfor place in {[*places, str(tmp_path), os.path.expanduser('~')]!r}:\n"
        f"    try:\n        open(os.path.join(place, {name!r}), 'w')\n    except OSError:\n"
        "        if os.path.exists(place):  # by its mount, whoever may write\n"
        "            assert os.statvfs(place).f_flag & os.ST_RDONLY, place\n"
        "        continue\n    raise RuntimeError(place)\n"
        f"open('/tmp/{name}', 'w'), open('/dev/shm/{name}2', 'w'), open('here', 'w')\n"
    )
    outcome = run(program, Limits(), own_files)
    assert outcome.passed, outcome
    assert not any(os.path.exists(f"{place}/{name}") for place in [*places, "/tmp", tmp_path])
    assert not os.path.exists(f"/dev/shm/{name}2")


def test_all_privileges_are_gone(own_files: Level) -> None:
    program = (
        "import ctypes\nstatus = dict(line.split(':\\t') for line in open('/proc/self/status'))\n"
        "for name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb'):\n"
        "    assert int(status[name], 16) == 0, name\nassert int(status['NoNewPrivs']) == 1\n"
    )
    if "no further one" in in_force(own_files):  # a new user namespace would give all of them
        program += "assert ctypes.CDLL(None).unshare(0x10000000) == -1\n"
    outcome = run(program, Limits(), own_files)
    assert outcome.passed, outcome


def test_root_does_not_stay_root(level: Level, tmp_path: Path) -> None:
    if not any(item.startswith("own user") for item in in_force(level)):
        pytest.skip("neither root, nor a root that may change its user")
    program = (
        "import os\nassert 0 not in (os.getuid(), os.geteuid(), os.getgid())\n"
        "def attempt(what, *arguments):\n    try:\n        what(*arguments)\n"
        "    except OSError:\n        return\n    raise RuntimeError(arguments)\n"
        f"attempt(open, {str(tmp_path / 'x')!r}, 'w')\nattempt(open, '/usr/x', 'w')\n"
        "attempt(os.setuid, 0)\nattempt(os.chroot, '.')\n"
    )
    outcome = run(program, Limits(), level)
    assert outcome.passed, outcome


def test_no_socket_leads_out(level: Level) -> None:
    if "no network" not in in_force(level):
        pytest.skip("the network is open at this level, as the docstring says")
    name = f"\0mars-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(name)
        local.listen()
        program = (
            "import socket\n"
            f"for family, address in ((socket.AF_INET, {tcp.getsockname()!r}), "
            f"(socket.AF_UNIX, {name!r})):\n"
            "    try:\n        socket.socket(family).connect(address)\n"
            "    except OSError:\n        continue\n    raise RuntimeError(address)\n"
        )
        outcome = run(program, Limits(), level)
    assert outcome.passed, outcome


def test_other_processes_cannot_be_signalled(level: Level) -> None:
    if "own processes" not in in_force(level):
        pytest.skip("a plain user's processes are in reach at this level")
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        program = (
            "import os, signal\n"
            f"for pid in (-1, {bystander.pid}, *range(2, 9)):\n"
            "    try:\n        os.kill(pid, signal.SIGKILL)\n    except OSError:\n        pass\n"
        )
        assert run(program, Limits(), level).passed
        assert bystander.poll() is None
    finally:
        bystander.communicate()


def test_no_variable_and_no_open_file_of_ours_passes(
    level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "MARS_DATA", "OPENAI_API_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    with open(os.devnull) as ours:
        os.set_inheritable(ours.fileno(), True)
        program = (
            "import os\nassert 'secret' not in os.environ.values(), dict(os.environ)\n"
            # 0, 1, 2, the report, and the one that lists them
            "assert len(os.listdir('/proc/self/fd')) == 5"
        )
        outcome = run(program, Limits(), level)
    assert outcome.passed, outcome


def test_daemons_in_sessions_of_their_own_are_killed(level: Level) -> None:
    name = f"left{uuid.uuid4().hex[:8]}"
    program = naming(name) + (
        "import os, time\nread, write = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0:\n        os.write(write, b'x')\n        time.sleep(60)\n"
        "    os._exit(0)\nassert os.read(read, 1) == b'x'\n"
    )
    assert run(program, Limits(), level).passed
    assert until(lambda: not named(name))


def test_the_program_dies_with_us(tmp_path: Path) -> None:
    levels = [level for level in LEVELS if sandbox.works(level)]
    names = {level: f"orph{uuid.uuid4().hex[:8]}" for level in levels}
    ours = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import json, sys, threading\nsys.path[:0] = sys.argv[1:2]\n"
            "from mars_cli.scoring import sandbox\nsandbox.allow()\n"
            "limits = sandbox.Limits(seconds=300)\n"
            "for level, program in zip(sys.argv[2::2], sys.argv[3::2]):\n"
            "    threading.Thread(target=sandbox.run, args=(program, limits),\n"
            "        kwargs={'level': level}).start()\n",
            str(Path(sandbox.__file__).parents[2]),
            *(
                word
                for level in levels
                for word in (level, naming(names[level]) + "import time\ntime.sleep(300)")
            ),
        ],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # nobody is left to delete what is in it
    )
    try:
        assert all(until(lambda name=name: named(name)) for name in names.values())
    finally:
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    assert all(until(lambda name=name: not named(name)) for name in names.values())
