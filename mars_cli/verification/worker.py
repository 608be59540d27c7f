"""vLLM worker extension: `mars` drives the seam in every worker by `collective_rpc`.

Passed to vLLM as `worker_extension_cls`. Arguments and results are plain types, so it works across
processes. With tensor parallelism every rank verifies the same rows; read rank 0.
"""

from __future__ import annotations

from typing import Any

from mars_cli.verification import teacher
from mars_cli.verification.hook import Seam, StepSeen
from mars_cli.verification.runners import install
from mars_cli.verification.spec import RuleSpec
from mars_cli.verification.teacher import Teacher

EXTENSION = "mars_cli.verification.worker.MarsWorkerExtension"


def install_seam(seam: Seam, vllm_config: Any) -> None:
    """Put `seam` into this worker process.

    Raises:
        RuntimeError: the engine is set to verify in a way that a rule does not go with, or its
            vLLM is not one that is known.
    """
    method = getattr(vllm_config.speculative_config, "rejection_sample_method", "standard")
    if method != "standard":
        raise RuntimeError(
            f"rejection_sample_method={method!r} does not go with a verification rule; "
            "mars needs 'standard'"
        )
    install(seam, v2=bool(vllm_config.use_v2_model_runner))


class MarsWorkerExtension:
    """Methods mixed into vLLM's worker; the seam lives as long as the worker."""

    # vLLM refuses an extension that has an attribute its worker also has: hence the prefix.
    vllm_config: Any
    mars_seam: Seam
    mars_teacher: Teacher

    def mars_install(self) -> None:
        """Install the seam. Called after the engine has warmed up, so warm-up never counts."""
        self.mars_seam = Seam()
        install_seam(self.mars_seam, self.vllm_config)
        self.mars_teacher = Teacher()
        teacher.install(self.mars_teacher, v2=bool(self.vllm_config.use_v2_model_runner))

    def mars_set_rule(self, spec: dict[str, Any]) -> None:
        """Verify by this rule (`RuleSpec.describe`) from the next step on."""
        self.mars_seam.default = RuleSpec.of(spec.pop("name"), **spec)

    def mars_trace(self, on: bool) -> None:
        """From now on look at every verified position, or no longer; see `Seam.tracing`."""
        self.mars_seam.tracing = on

    def mars_drain(self) -> dict[str, list[StepSeen]]:
        """What was seen since the last drain; see `Seam.drain`."""
        return self.mars_seam.drain()

    def mars_expect(self, request_id: str, first: int, targets: list[int]) -> None:
        """Re-score what this request's positions predict; see `Teacher.expect`."""
        self.mars_teacher.expect(request_id, first, targets)

    def mars_collect(self, request_id: str) -> list[list[float]]:
        """What was found; see `Teacher.collect`."""
        return self.mars_teacher.collect(request_id)

    def mars_cost(self) -> tuple[float, int]:
        """Seconds spent in the seam outside the engine's own sampler, and calls, so far."""
        return self.mars_seam.seconds, self.mars_seam.calls
