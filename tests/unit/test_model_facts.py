"""Numbers of parameters in the configurations are those that the architectures have."""

from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli.config import configured_models, load_model
from mars_cli.engine.draft_checks import problems
from tests import standins

# Of these the sizes could not be looked up: one states its file's size, the other nothing.
UNKNOWN = (
    "hub:nvidia/Qwen3-235B-A22B-Eagle3",
    "hub:RedHatAI/Qwen3-235B-A22B-speculator.eagle3",
)
MODELS = [name for name in configured_models() if load_model(name).weights.startswith("hub:")]


@pytest.mark.parametrize("name", MODELS)
def test_parameters_follow_from_the_architecture(name: str) -> None:
    config = load_model(name)
    target = standins.CHECKPOINTS[config.weights.removeprefix("hub:")]
    assert config.parameters == pytest.approx(standins.parameters(target) / 1e9, rel=0.005)
    for draft in config.drafts.values():
        reference = draft.options().get("model")
        if reference is not None and reference not in UNKNOWN:
            own = standins.CHECKPOINTS[reference.removeprefix("hub:")]
            said = getattr(draft, "parameters", None)
            assert said == pytest.approx(standins.head_parameters(own) / 1e9, abs=0.006), reference


@pytest.mark.parametrize("name", MODELS)
def test_no_draft_that_ships_is_refused(name: str, tmp_path: Path) -> None:
    config = load_model(name)
    target = standins.save(config.weights, tmp_path)
    for draft in config.drafts:
        options = config.draft(draft).options
        own = standins.save(options["model"], tmp_path) if "model" in options else None
        assert list(problems(options, config.k_of(draft), target, own, config.engine)) == []


def test_a_head_of_another_model_is_refused(tmp_path: Path) -> None:
    target = standins.save("hub:Qwen/Qwen3-4B", tmp_path)
    own = standins.save("hub:AngelSlim/Qwen3-8B_eagle3", tmp_path)
    (wrong,) = problems({"method": "eagle3", "model": "x"}, 7, target, own, {})
    assert wrong == "it reads hidden states of 4096 values, and the target's have 2560"


def test_the_context_is_within_what_the_checkpoint_was_made_for() -> None:
    for name in MODELS:
        config = load_model(name)
        own = standins.CHECKPOINTS[config.weights.removeprefix("hub:")]
        assert (config.max_model_len or 0) <= own["max_position_embeddings"]


def test_a_split_divides_heads_and_keys() -> None:
    for name in MODELS:
        config = load_model(name)
        own = standins.CHECKPOINTS[config.weights.removeprefix("hub:")]
        split = config.engine.get("tensor_parallel_size", 1)
        assert own["num_attention_heads"] % split == 0
        kv = own["num_key_value_heads"]
        assert kv % split == 0 or split % kv == 0


def test_vicuna_is_prompted_as_it_was_trained() -> None:
    sandbox = pytest.importorskip("jinja2.sandbox")
    template = load_model("vicuna-13b").chat_template
    assert isinstance(template, str)
    # As transformers sets it up.
    environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    turns = [("user", "Hi"), ("assistant", "Hello"), ("user", "More")]
    said = environment.from_string(template).render(
        messages=[{"role": role, "content": content} for role, content in turns],
        bos_token="<s>",
        eos_token="</s>",
        add_generation_prompt=True,
    )
    assert said == (
        "<s>A chat between a curious user and an artificial intelligence assistant. The assistant "
        "gives helpful, detailed, and polite answers to the user's questions. "
        "USER: Hi ASSISTANT: Hello</s>USER: More ASSISTANT:"
    )
