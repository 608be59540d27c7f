"""vLLM plugin (entry point `vllm.general_plugins`): the rule in plain `vllm serve`.

Inert unless `MARS_RULE` or `MARS_THETA` is set. vLLM calls `register` once in each of its
processes: where requests are admitted it refuses wrong `mars_*` parameters, and in the workers it
installs the seam once the model is loaded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from mars_cli.verification.spec import RuleSpec, request_spec

RULE = "MARS_RULE"
THETA = "MARS_THETA"


def requested(environment: Mapping[str, str]) -> RuleSpec | None:
    """The rule that the environment asks for; None when it asks for none.

    Raises:
        ValueError: both variables are set, or a value is refused.
    """
    rule, theta = environment.get(RULE), environment.get(THETA)
    if rule and theta:
        raise ValueError(f"{RULE} and {THETA} are both set: {THETA}=x is short for {RULE}=mars:...")
    try:
        if rule:
            return RuleSpec.parse(rule)
        return RuleSpec.parse(f"mars:theta={theta}") if theta else None
    except ValueError as error:
        raise ValueError(f"{RULE if rule else THETA}: {error}") from None


def register() -> None:
    """The entry point."""
    spec = requested(os.environ)
    if spec is not None:
        refuse_wrong_requests(spec)
        _install_in_workers(spec)


def refuse_wrong_requests(default: RuleSpec) -> None:
    """Have vLLM refuse a request whose `mars_*` parameters are wrong, before an engine sees it."""
    from vllm.exceptions import VLLMValidationError  # which its server answers with 400
    from vllm.v1.engine.input_processor import InputProcessor

    validate = InputProcessor._validate_params

    def _validate_params(processor: Any, params: Any, *rest: Any, **named: Any) -> Any:
        try:
            request_spec(getattr(params, "extra_args", None), default)
        except ValueError as error:
            raise VLLMValidationError(str(error)) from None
        return validate(processor, params, *rest, **named)

    InputProcessor._validate_params = _validate_params


def _install_in_workers(spec: RuleSpec) -> None:
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    initialize = WorkerWrapperBase.initialize_from_config
    logger = logging.getLogger("vllm.mars")

    def initialize_from_config(worker: Any, *args: Any, **named: Any) -> Any:
        from mars_cli.verification.hook import Seam
        from mars_cli.verification.worker import install_seam

        install_seam(Seam(spec, record=False), worker.vllm_config)
        if worker.vllm_config.speculative_config is None:
            logger.warning("Verification rule %s has nothing to verify: no draft is set", spec)
        else:
            logger.info("Verifying drafts by the rule %s", spec)
        return initialize(worker, *args, **named)

    WorkerWrapperBase.initialize_from_config = initialize_from_config
