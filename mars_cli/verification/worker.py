"""vLLM worker extension: `mars` drives the seam in every worker by `collective_rpc`.

Passed to vLLM as `worker_extension_cls`. Arguments and results are plain types, so it works across
processes. With tensor parallelism every rank verifies the same rows; read rank 0.
"""

from __future__ import annotations

from typing import Any

from mars_cli.verification.hook import Seam, StepSeen, install
from mars_cli.verification.rules import make_rule

EXTENSION = "mars_cli.verification.worker.MarsWorkerExtension"


class MarsWorkerExtension:
    """Methods mixed into vLLM's worker; the seam lives as long as the worker."""

    # vLLM refuses an extension that has an attribute its worker also has: hence the prefix.
    vllm_config: Any
    mars_seam: Seam

    def mars_install(self) -> None:
        """Install the seam. Called after the engine has warmed up, so warm-up never counts."""
        speculative = self.vllm_config.speculative_config
        method = getattr(speculative, "rejection_sample_method", "standard")
        if method != "standard":
            raise RuntimeError(
                f"rejection_sample_method={method!r} does not go with a verification rule; "
                "mars needs 'standard'"
            )
        self.mars_seam = Seam()
        install(self.mars_seam)

    def mars_set_rule(self, name: str, parameters: dict[str, float]) -> None:
        """Verify by this rule from the next step on."""
        self.mars_seam.rule = None if name == "strict" else make_rule(name, **parameters)

    def mars_drain(self) -> dict[str, list[StepSeen]]:
        """What was seen since the last drain; see `Seam.drain`."""
        return self.mars_seam.drain()

    def mars_cost(self) -> tuple[float, int]:
        """Seconds spent in the seam outside the engine's own sampler, and calls, so far."""
        return self.mars_seam.seconds, self.mars_seam.calls

    def mars_seed(self, seed: int) -> None:
        """Seed the global generator, for sampling at temperature > 0."""
        import torch

        torch.manual_seed(seed)
