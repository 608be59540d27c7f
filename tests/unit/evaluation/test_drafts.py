"""Several drafts in one run, and what is said of a model without one."""

from __future__ import annotations

from typing import Any

import pytest

from mars_cli.config import ModelConfig
from mars_cli.errors import UsageError
from mars_cli.evaluation import plan
from mars_cli.verification.spec import RuleSpec

OPTIONS: dict[str, Any] = {
    **dict.fromkeys(("limit", "max_tokens", "speed_prompts", "repeats", "concurrency")),
    **dict.fromkeys(("max_num_seqs", "tasks", "dtype", "k", "temperature")),
    "prompts": (),
    "draft": (),
    "seed": 0,
    "rules": [RuleSpec.of("mars", theta=0.9)],
}
BARE = ModelConfig(name="m", weights="hub:a/b")


def lanes_of(own: ModelConfig, **options: Any) -> list[str]:
    asked = {**OPTIONS, **options}
    return [lane.id for lane in plan._lanes(asked, plan.configure(own, asked))]


def test_each_draft_has_its_lanes_and_all_share_one_autoregressive_lane() -> None:
    assert lanes_of(BARE, draft=("ngram", "suffix")) == [
        "ar",
        "strict-ngram-k7",
        "mars-ngram-k7-t0.9",
        "strict-suffix-k7",
        "mars-suffix-k7-t0.9",
    ]


def test_the_plan_keeps_the_drafts_that_run_and_no_others() -> None:
    own = BARE.with_drafts(["ngram", "suffix"])
    config = plan.configure(own, {**OPTIONS, "draft": ("suffix",)})
    assert config.model_dump()["drafts"] == {
        "suffix": {"method": "suffix", "suffix_decoding_max_cached_requests": 0}
    }


def test_k_of_the_command_line_is_above_a_drafts_own() -> None:
    raw = {"name": "m", "weights": "hub:a/b", "drafts": {"ngram": {"method": "ngram", "k": 3}}}
    own = ModelConfig.model_validate(raw)
    assert lanes_of(own)[1] == "strict-ngram-k3"
    assert lanes_of(own, k=5)[1] == "strict-ngram-k5"


def test_drafting_by_ngram_for_want_of_a_draft_is_said() -> None:
    (said,) = plan._fallback(BARE, OPTIONS)
    assert "m has no draft of its own: drafting by n-gram" in said
    assert plan._fallback(BARE, {**OPTIONS, "draft": ("ngram",)}) == []
    assert plan._fallback(BARE.with_drafts(["ngram"]), OPTIONS) == []


def test_a_wrong_draft_is_refused_before_anything_else() -> None:
    with pytest.raises(UsageError, match="--draft eagle3: model is required"):
        plan.configure(BARE, {**OPTIONS, "draft": ("eagle3",)})
