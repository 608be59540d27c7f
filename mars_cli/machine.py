"""What this machine has: GPUs, memory, the CPU's instructions. Found without torch or vLLM."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

GIB = 2**30
# Instruction sets that vLLM's CPU build has kernels for, the best first.
_KERNELS = ("amx_bf16", "avx512f", "avx2", "asimd")


@dataclass(frozen=True)
class Gpu:
    """A GPU that a process here would see."""

    name: str
    memory: int  # bytes


@dataclass(frozen=True)
class Machine:
    """`available` is the memory free now, in bytes; `flags` those of `_KERNELS` that it has."""

    gpus: tuple[Gpu, ...]
    memory: int
    available: int
    cores: int
    cpu: str
    flags: tuple[str, ...]


def machine() -> Machine:
    """This one."""
    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    info = _cpuinfo()
    names = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    words = {
        word
        for line in info
        if line.startswith(("flags", "Features"))
        for word in line.partition(":")[2].split()
    }
    return Machine(
        gpus=_gpus(),
        memory=int(memory.total),
        available=int(memory.available),
        cores=cores or 1,
        cpu=names[0] if names else platform.processor() or platform.machine(),
        flags=tuple(flag for flag in _KERNELS if flag in words),
    )


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _gpus(timeout: float = 10.0) -> tuple[Gpu, ...]:
    """As nvidia-smi lists them, those alone that CUDA_VISIBLE_DEVICES names by number."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    fields = ["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run(
            [tool, *fields], capture_output=True, text=True, timeout=timeout, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = []
    for line in ran.stdout.splitlines():
        name, _, mib = line.rpartition(",")
        if mib.strip().isdecimal():
            found.append(Gpu(name.strip(), int(mib) * 2**20))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(found)
    chosen = [part.strip() for part in visible.split(",") if part.strip()]
    if not all(part.isdecimal() for part in chosen):  # named by UUID: which, only CUDA knows
        return tuple(found[: len(chosen)])
    return tuple(found[int(part)] for part in chosen if int(part) < len(found))


def free_space(folder: Path) -> int:
    """Bytes free where `folder` is or would be made."""
    place = folder.expanduser().absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
