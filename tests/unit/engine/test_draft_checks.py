"""A draft that does not go with its target is refused from the files that describe both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.config import ModelConfig
from mars_cli.engine import draft_checks
from mars_cli.engine.draft_checks import check_drafts, check_sampling, problems, tokenizers_differ
from mars_cli.errors import UsageError

TARGET = {"hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 8}


def folder_with(parent: Path, name: str, config: dict[str, Any]) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def save_tokenizer(folder: Path, vocab: Any, added: dict[str, int] | None = None) -> None:
    tokens = [{"id": n, "content": token} for token, n in (added or {}).items()]
    raw = {"model": {"vocab": vocab}, "added_tokens": tokens}
    (folder / "tokenizer.json").write_text(json.dumps(raw))


def found(
    tmp_path: Path,
    options: dict[str, Any],
    own: dict[str, Any] | None,
    *,
    target: dict[str, Any] | None = None,
    k: int = 7,
    **engine: Any,
) -> list[str]:
    there = folder_with(tmp_path, "target", target or TARGET)
    here = None if own is None else folder_with(tmp_path, "draft", own)
    return list(problems(options, k, there, here, engine))


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"hidden_size": 64, "vocab_size": 100}, None),
        ({"hidden_size": 32, "target_hidden_size": 64, "vocab_size": 100}, None),
        ({"hidden_size": 64, "vocab_size": 128, "draft_vocab_size": 32}, None),
        ({"hidden_size": 32, "vocab_size": 100}, "hidden states of 32 values, and the target's"),
        ({"hidden_size": 64, "target_hidden_size": 32}, "hidden states of 32 values"),
        ({"hidden_size": 64, "vocab_size": 50}, "knows 50 tokens, and the target has 100"),
        ({"hidden_size": 64, "draft_vocab_size": 101}, "drafts from 101 tokens"),
        (
            {"hidden_size": 64, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 9]}},
            "reads layers [2, 4, 9], and the target has 8",
        ),
    ],
)
def test_a_head_must_fit_the_targets_hidden_states_tokens_and_layers(
    tmp_path: Path, own: dict[str, Any], said: str | None
) -> None:
    wrong = found(tmp_path, {"method": "eagle3", "model": "x"}, own)
    assert wrong == [] if said is None else said in wrong[0]


def test_a_checkpoint_of_the_speculators_library_is_read_where_it_keeps_its_sizes(
    tmp_path: Path,
) -> None:
    layer = {"hidden_size": 32, "vocab_size": 100}
    own = {"speculators_model_type": "eagle3", "transformer_layer_config": layer}
    (wrong,) = found(tmp_path, {"method": "eagle3", "model": "x"}, own)
    assert "hidden states of 32 values" in wrong


def test_a_checkpoint_made_for_another_method_is_refused(tmp_path: Path) -> None:
    own = {"speculators_model_type": "dflash", "hidden_size": 64}
    (wrong,) = found(tmp_path, {"method": "eagle3", "model": "x"}, own)
    assert wrong == "draft is made for the method dflash, not eagle3"


def test_a_multimodal_targets_text_model_is_what_counts(tmp_path: Path) -> None:
    target = {"hidden_size": 9, "text_config": TARGET}
    own = {"hidden_size": 64, "vocab_size": 100}
    assert found(tmp_path, {"method": "eagle", "model": "x"}, own, target=target) == []


def test_a_block_is_not_longer_than_it_was_trained(tmp_path: Path) -> None:
    own = {"hidden_size": 64, "block_size": 8, "dflash_config": {"mask_token_id": 3}}
    options = {"method": "dflash", "model": "x"}
    assert found(tmp_path, options, own, k=8) == []
    (wrong,) = problems(options, 9, tmp_path / "target", tmp_path / "draft", {})
    assert "K 9 is more than the block of 8" in wrong


def test_drafting_at_once_needs_a_mask_token(tmp_path: Path) -> None:
    options = {"method": "eagle3", "model": "x", "parallel_drafting": True}
    (wrong,) = found(tmp_path, options, {"hidden_size": 64})
    assert "names no mask token" in wrong


def test_a_small_model_must_have_the_targets_vocabulary(tmp_path: Path) -> None:
    options = {"method": "draft_model", "model": "x"}
    (wrong,) = found(tmp_path, options, {"hidden_size": 8, "vocab_size": 90})
    assert "90 entries and the target's 100" in wrong
    options["use_heterogeneous_vocab"] = True
    assert list(problems(options, 7, tmp_path / "target", tmp_path / "draft", {})) == []


def test_a_small_model_must_number_tokens_as_the_target_does(tmp_path: Path) -> None:
    target, own = (folder_with(tmp_path, name, TARGET) for name in ("target", "draft"))
    save_tokenizer(target, {"a": 0, "b": 1}, {"<end>": 2})
    save_tokenizer(own, {"a": 0, "b": 1}, {"<end>": 2})
    options = {"method": "draft_model", "model": "x"}
    assert list(problems(options, 7, target, own, {})) == []
    save_tokenizer(own, {"a": 0, "b": 2}, {"<end>": 1})
    (wrong,) = problems(options, 7, target, own, {})
    assert wrong == "its tokenizer is not the target's: 'b' is 2 there and 1 in the target"


def test_tokenizers_of_lists_are_compared_by_place_and_unknown_ones_not_at_all(
    tmp_path: Path,
) -> None:
    one, other = (folder_with(tmp_path, name, {}) for name in ("one", "other"))
    assert tokenizers_differ(one, other) is None
    save_tokenizer(one, [["a", -1.0], ["b", -2.0]])
    save_tokenizer(other, [["a", -1.0], ["c", -2.0]])
    assert tokenizers_differ(one, other) == "'c' is absent there and 1 in the target"


@pytest.mark.parametrize(
    ("target", "k", "said"),
    [
        ({"num_nextn_predict_layers": 1}, 3, None),
        ({"num_nextn_predict_layers": 2}, 4, None),
        ({"num_nextn_predict_layers": 2}, 1, None),
        ({"num_nextn_predict_layers": 2}, 3, "K 3 is no multiple of the 2 layers"),
        ({"text_config": {"mtp_num_hidden_layers": 1}}, 3, None),
        ({"num_nextn_predict_layers": 0}, 1, "no layers that look ahead"),
        ({}, 1, "no layers that look ahead"),
    ],
)
def test_mtp_needs_layers_that_look_ahead_and_a_multiple_of_them(
    tmp_path: Path, target: dict[str, Any], k: int, said: str | None
) -> None:
    wrong = found(tmp_path, {"method": "mtp"}, None, target={**TARGET, **target}, k=k)
    assert wrong == [] if said is None else said in wrong[0]


def test_tensor_parallelism_of_a_draft_is_one_or_the_targets(tmp_path: Path) -> None:
    options = {"method": "eagle", "model": "x", "draft_tensor_parallel_size": 2}
    own = {"hidden_size": 64}
    (wrong,) = found(tmp_path, options, own, tensor_parallel_size=4)
    assert wrong == "draft_tensor_parallel_size 2 is neither 1 nor the target's 4"
    small = {"method": "draft_model", "draft_tensor_parallel_size": 1}
    (wrong,) = problems(small, 7, None, None, {"tensor_parallel_size": 4})
    assert "a draft_model needs the target's 4" in wrong


def test_what_a_method_needs_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_checks, "find_spec", lambda name: None)
    (wrong,) = problems({"method": "suffix"}, 7, None, None, {})
    assert "needs the package arctic-inference" in wrong
    (wrong,) = problems({"method": "custom_class", "model": "no.such.Class"}, 7, None, None, {})
    assert wrong == "the module no.such of no.such.Class cannot be found"


def test_a_class_that_is_there_and_ngram_pass() -> None:
    path = {"method": "custom_class", "model": "json.decoder.JSONDecoder"}
    assert list(problems(path, 7, None, None, {})) == []
    assert list(problems({"method": "ngram"}, 7, None, None, {})) == []


def test_the_refusal_names_the_draft_and_needs_no_weights(tmp_path: Path) -> None:
    target = folder_with(tmp_path, "target", TARGET)
    own = folder_with(tmp_path, "draft", {"hidden_size": 32})
    config = ModelConfig(name="m", weights=str(target)).with_drafts([f"mine=eagle3:{own}"])
    with pytest.raises(UsageError, match="draft mine: it reads hidden states of 32"):
        check_drafts(config, {})


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    target = folder_with(tmp_path, "target", TARGET)
    (target / "config.json").write_text("{")
    config = ModelConfig(name="m", weights=str(target)).with_drafts(["mtp"])
    with pytest.raises(UsageError, match=r"target/config\.json: cannot be read"):
        check_drafts(config, {})


@pytest.mark.parametrize("sampling", [{"min_p": 0.1}, {"logit_bias": {"3": 5}}])
def test_sampling_that_vllm_refuses_beside_drafts_is_refused_before(
    sampling: dict[str, Any],
) -> None:
    with pytest.raises(UsageError, match=f"task t: its generation setting {next(iter(sampling))}"):
        check_sampling("t", sampling)
    check_sampling("t", {"min_p": 0.0, "top_p": 0.9})
