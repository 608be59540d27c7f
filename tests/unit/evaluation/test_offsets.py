"""Where tokens end in a text, with a real byte-level tokenizer."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.offsets import token_ends
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import FakeEngine, Silent

PROMPT = "<s>q"
TEXT = "né 名\U0001f600</s>x"  # 1 to 4 bytes a character, and a special token in the middle


@pytest.fixture(scope="session")
def tokenizer(tiny_tokenizer: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_tokenizer)


def ends_of(tokenizer: Any, ids: list[int], text: str) -> list[int] | None:
    return token_ends(tokenizer, tokenizer.encode(PROMPT), ids, text)


def test_a_token_ends_behind_the_last_character_that_is_whole(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert ends_of(tokenizer, ids, TEXT) == [1, 1, 2, 3, 3, 3, 4, 4, 4, 4, 5, 9, 10]


def test_what_a_stop_string_cut_off_ends_where_the_text_does(tokenizer):
    ids = tokenizer.encode("ab名\n\nc")
    assert ends_of(tokenizer, ids, "ab名") == [1, 2, 2, 2, 3, 3, 3, 3]
    assert ends_of(tokenizer, [*tokenizer.encode("ab"), 1], "ab") == [1, 2, 2]
    assert ends_of(tokenizer, ids, "") == [0] * len(ids)
    assert ends_of(tokenizer, [], "") == []


def test_bytes_of_a_character_that_never_came_end_where_it_would_have_begun(tokenizer):
    ids = tokenizer.encode("a名")[:-1]
    assert ends_of(tokenizer, ids, "a") == [1, 1, 1]


def test_a_text_that_the_tokens_do_not_give_has_no_ends(tokenizer):
    ids = tokenizer.encode("ab")
    for other in ("ac", "abc", "b"):
        assert ends_of(tokenizer, ids, other) is None
    assert ends_of(tokenizer, [9999], "a") is None
    assert token_ends(object(), [], ids, "ab") is None  # a tokenizer of another kind


def test_ends_never_go_back_and_cut_the_text_into_what_the_tokens_say(tokenizer):
    draw = random.Random(7)
    for _ in range(200):
        text = "".join(draw.choice("ab é名\U0001f600\n") for _ in range(draw.randrange(40)))
        kept = text[: draw.randrange(len(text) + 1)]
        ids = tokenizer.encode(text)
        ends = ends_of(tokenizer, ids, kept)
        assert ends is not None
        assert ends == sorted(ends)
        shown = [len(tokenizer.decode(ids[: n + 1]).rstrip("\ufffd")) for n in range(len(ids))]
        assert ends == [min(one, len(kept)) for one in shown]


def test_bytes_that_never_make_a_character_cost_no_more_than_others(tokenizer):
    stray = tokenizer.encode("é")[:1]
    calls: list[int] = []

    class Counted(list):  # type: ignore[type-arg]
        def __iter__(self):
            for token in super().__iter__():
                calls.append(token)
                yield token

    assert ends_of(tokenizer, Counted(stray * 5000), "\ufffd" * 5000) is None
    assert len(calls) < 100


class Spelling(FakeEngine):
    """Answers with tokens that the tokenizer knows."""

    def generate(self, requests, concurrency=1):
        for one in super().generate(requests, concurrency):
            # Of the tiny tokenizer: "n", "é", and </s>, which is in no text.
            ids = [79, 129, 104, 1][: len(one.token_ids)]
            text = "né"[: max(1, len(ids) - 1)]
            yield dataclasses.replace(one, token_ids=ids, text=text)


def test_the_quality_phase_records_them(job: Job, fake: Any, tmp_path: Path) -> None:
    with Run(tmp_path, {"model": {"name": "fake"}, "allow_code_execution": False}, {}) as run:
        evaluate(job, run, Silent(), make_engine=Spelling)
    found = [
        record
        for lane in job.lanes
        for record in read_records(tmp_path / f"records/quality/echo/{lane.id}.jsonl")
    ]
    assert len(found) == 18
    for record in found:
        expected = [1, 1, 2, 2] if record["text"] == "né" else [1, 1]
        assert record["token_ends"] == expected[: len(record["token_ids"])]
    assert {record["text"] for record in found} == {"n", "né"}
    speed = read_records(tmp_path / "records/speed/echo.jsonl")
    assert not any("token_ends" in record for record in speed)
