"""vLLM's own parser and configuration take what each shipped model is started with.

Copies of config.json stand in for the hub, and no weights exist. Arguments are those that a GPU
gets; vLLM's objects are built on whatever this machine is.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.config import ModelConfig, configured_models, load_model
from mars_cli.engine import setup
from mars_cli.engine.lane import plan_lanes
from mars_cli.engine.probe import look
from mars_cli.engine.protocol import EngineSpec
from tests import standins

pytestmark = pytest.mark.engine
pytest.importorskip("vllm")
MODELS = [name for name in configured_models() if load_model(name).weights.startswith("hub:")]


def every_draft(name: str) -> ModelConfig:
    own = load_model(name)
    return own.with_drafts(list(own.drafts))


def specs_on_a_gpu(
    config: ModelConfig, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, EngineSpec]:
    """What engines of this model get on a machine with GPUs, one at a time."""
    import torch

    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(setup, "resolve_weights", lambda name, **_: str(standins.save(name, folder)))
        lanes = [
            lane
            for name in config.drafts
            for lane in plan_lanes(config.draft(name), config.k_of(name), [], None, 0)
        ]
        return setup.engine_specs(
            config,
            setup.resolve_weights(config.weights),
            lanes,
            max_num_seqs=config.defaults.max_num_seqs,
            overrides={},
            side_by_side=False,
        )


@pytest.fixture(autouse=True)
def _classes_are_looked_at_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM starts a process for each model class, to keep CUDA out of its own: seconds each."""
    from vllm.model_executor.models import registry

    monkeypatch.setattr(registry, "_run_in_subprocess", lambda look_at: look_at())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.mark.parametrize("name", MODELS)
def test_every_argument_is_one_that_vllm_parses(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As typed: `mars serve` hands them over as options, and `mars eval` as a dataclass."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from mars_cli.commands.serve import _flag

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    for spec in specs_on_a_gpu(every_draft(name), folder, monkeypatch).values():
        given = {key: value for key, value in spec.args.items() if value is not None}
        parsed = parser.parse_args([flag for item in given.items() for flag in _flag(*item)])
        typed = EngineArgs.from_cli_args(parsed)
        direct = EngineArgs(**spec.args)
        for key in given:
            assert getattr(typed, key) == getattr(direct, key), key


@pytest.mark.parametrize("name", MODELS)
def test_vllm_builds_its_configuration_for_every_draft(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.engine.arg_utils import EngineArgs

    config = every_draft(name)
    specs = specs_on_a_gpu(config, folder, monkeypatch)
    assert list(specs) == ["ar", *(f"{draft}-k{config.k_of(draft)}" for draft in config.drafts)]
    target = standins.CHECKPOINTS[config.weights.removeprefix("hub:")]
    for spec in specs.values():
        assert spec.args["gpu_memory_utilization"] == setup.GPU_SHARE
        args = EngineArgs(disable_log_stats=True, **on_this_machine(spec.args))
        speculative = args.speculative_config
        model = args.create_model_config()
        assert str(model.dtype) == f"torch.{config.dtype}"
        assert model.max_model_len == min(config.max_model_len or 0, 131072)
        assert model.get_vocab_size() == target["vocab_size"]
        assert target["num_attention_heads"] % spec.args.get("tensor_parallel_size", 1) == 0
        if speculative is not None:
            built = speculative_of(args, model)
            assert built.method == speculative["method"]
            assert built.num_speculative_tokens == config.k
            assert built.rejection_sample_method == "standard"
            if built.method == "eagle3":
                assert built.draft_model_config.hf_config.draft_vocab_size == 32000
                assert all("Eagle3" in one for one in built.draft_model_config.architectures)


def on_this_machine(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without what asks for GPUs that are not here: the split over several."""
    return {key: value for key, value in arguments.items() if key not in ("tensor_parallel_size",)}


def speculative_of(args: Any, model: Any) -> Any:
    from vllm.config import ParallelConfig

    return args.create_speculative_config(
        target_model_config=model, target_parallel_config=ParallelConfig()
    )


def test_the_seam_fits_this_vllm_and_its_runner_is_named() -> None:
    found = look()
    assert found["seam"] is None
    assert found["runner"] in ("V1", "V2")


def test_the_options_of_each_method_are_vllms_own() -> None:
    from vllm.config import SpeculativeConfig

    from mars_cli.drafts import METHODS, DraftConfig

    known = {field.name for field in dataclasses.fields(SpeculativeConfig)}
    for kind in METHODS.values():
        assert set(kind.model_fields) - DraftConfig.ours <= known


def test_the_stand_ins_are_json() -> None:
    for config in standins.CHECKPOINTS.values():
        assert json.loads(json.dumps(config)) == config
