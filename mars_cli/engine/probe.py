"""What the installed vLLM is, and whether the seam fits it: one JSON line.

`python -m mars_cli.engine.probe`, in a process of its own, since importing vLLM takes long.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TIMEOUT = 180.0  # seconds
_SOURCES = Path(__file__).resolve().parent.parent.parent  # holds the package, in a checkout


def probe(timeout: float = TIMEOUT) -> dict[str, Any]:
    """`vllm`, `torch`, `device`, `runner`, and `seam`: None where it fits, else why it does not.

    `error` alone where vLLM cannot even be imported.
    """
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(_SOURCES)]))
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "PYTHONPATH": path}
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "mars_cli.engine.probe"],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **quiet},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"importing vLLM took longer than {timeout:g} s"}
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not lines:
        said = [line for line in ran.stderr.splitlines() if line.strip()]
        return {"error": said[-1].strip() if said else f"it ended with code {ran.returncode}"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def look() -> dict[str, Any]:
    """What `probe` tells, of this very process; nothing is installed in it."""
    import vllm

    from mars_cli.verification import runners

    found: dict[str, Any] = {"vllm": vllm.__version__, "torch": version("torch"), "seam": None}
    try:
        runners._check_version(vllm.__version__)
        found["device"], found["runner"] = _platform()
        _fits_v1()
        if found["runner"] == "V2":  # engines that it does not serve still get V1
            _fits_v2()
    except (RuntimeError, ImportError, AttributeError) as error:
        found["seam"] = str(error)
    return found


def _fits_v1() -> None:
    """Wrap what the seam wraps, which checks its signatures, and throw the wrappers away."""
    from mars_cli.verification import runners
    from mars_cli.verification.hook import Seam

    sampler: Any = importlib.import_module(runners.V1_SAMPLER)
    runner: Any = importlib.import_module(runners.V1_RUNNER).GPUModelRunner
    runners.around_v1_sampler(Seam(), sampler.rejection_sample)
    runners.around_v1_runner(Seam(), runner._sample)


def _fits_v2() -> None:
    from mars_cli.verification import runners
    from mars_cli.verification.hook import Seam

    drafted: Any = importlib.import_module(runners.V2_SAMPLER)
    plain: Any = importlib.import_module(runners.V2_PLAIN_SAMPLER).Sampler
    runners.around_v2_sampler(Seam(), drafted.rejection_sample)
    runners.around_v2_admission({}, plain.add_request)
    for sampler, drafts in ((drafted.RejectionSampler, True), (plain, False)):
        runners.around_v2_step(Seam(), {}, sampler.__call__, drafts=drafts)


def _platform() -> tuple[str, str]:
    """The device that engines run on, and the model runner that they get there."""
    from vllm import envs
    from vllm.platforms import current_platform
    from vllm.triton_utils import HAS_TRITON

    asked = envs.VLLM_USE_V2_MODEL_RUNNER
    second = HAS_TRITON and not current_platform.is_cpu() if asked is None else asked
    return str(current_platform.device_type), "V2" if second else "V1"


if __name__ == "__main__":
    print(json.dumps(look()))
