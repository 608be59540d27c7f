"""`--baseline`: what is refused, and by what name."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.config import ModelConfig
from mars_cli.errors import UsageError
from mars_cli.evaluation.baseline import check_plan, open_baseline
from mars_cli.evaluation.job import Job
from mars_cli.runs.files import write_json
from tests.unit.evaluation.conftest import CODE
from tests.unit.evaluation.taking import (
    AR,
    MARS,
    STRICT,
    MakeJob,
    engine_with,
    plan_of,
    quality,
    quality_asked,
    rerun,
    run_job,
    taking,
    with_prompts,
)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=f"^--baseline {folder}: no such run directory$"):
        open_baseline(folder, out)
    folder.mkdir()
    with pytest.raises(UsageError, match=f"^--baseline {folder}: holds no run of mars$"):
        open_baseline(folder, out)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(UsageError, match=r"^--baseline .*manifest\.json: not a manifest of mars$"):
        open_baseline(folder, out)
    write_json(folder / "manifest.json", {"schema": 2})
    with pytest.raises(UsageError, match=r"^--baseline .*written with schema 2, .* schema 1$"):
        open_baseline(folder, out)
    write_json(folder / "manifest.json", {"schema": 1, "id": "x"})
    with pytest.raises(UsageError, match=r"its manifest\.json is broken$"):
        open_baseline(folder, out)


def test_this_very_run_is_refused(first: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(first)
    with pytest.raises(UsageError, match=r": is this very run \(--out\)$"):
        open_baseline(tmp_path / "link", first)


@pytest.mark.parametrize(
    ("before", "now", "said", "hint"),
    [
        ({"vllm": "0.1"}, {}, "version of vllm is 0.1 and this run's is 0", "install that version"),
        ({"mars": "0.1"}, {}, "version of mars is 0.1 and this run's is 1", "install that version"),
        ({"temperature": 0.7}, {}, "temperature is 0.7 and this run's is the tasks' own", "0.7"),
        ({}, {"temperature": 0.0}, "temperature is the tasks' own and this run's is 0", "leave"),
        ({"seed": 3}, {}, "seed is 3 and this run's is 0", "give that --seed"),
        (
            {},
            {"engine_args": {"enforce_eager": True}},
            "engine argument enforce_eager is unset and this run's is true",
            "give that --engine-arg",
        ),
        (
            {"fingerprint": ["g"]},
            {},
            "weights' fingerprint is g and this run's is f",
            "the weights have changed since",
        ),
    ],
)
def test_setting_that_differs_is_refused_by_name(
    job: Job,
    fake: Any,
    tmp_path: Path,
    before: dict[str, Any],
    now: dict[str, Any],
    said: str,
    hint: str,
) -> None:
    run_job(job, tmp_path / "first", fake, **before)
    with pytest.raises(UsageError) as refused:
        taking(job, tmp_path / "first", **now)
    assert str(refused.value) == f"--baseline {tmp_path / 'first'}: its {said}"
    assert hint in (refused.value.hint or "")
    assert "leave --baseline out" in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["gpu_memory_utilization", "max_num_seqs"])
def test_size_of_an_engine_is_no_difference(
    job: Job, fake: Any, first: Path, tmp_path: Path, name: str
) -> None:
    assert taking(job, first, engine_args={name: 1}).baseline is not None


def test_other_model_is_refused_before_its_weights_are_there(job: Job, first: Path) -> None:
    config = ModelConfig(name="other", weights="nowhere")
    plan = plan_of(dataclasses.replace(job, config=config))
    del plan["fingerprint"]
    with pytest.raises(UsageError, match="its model is fake and this run's is other"):
        check_plan(open_baseline(first, Path("out")), plan, ["echo"])


def test_task_that_it_lacks_is_refused(job: Job, first: Path) -> None:
    with pytest.raises(UsageError, match=r": has no task gsm8k$") as refused:
        check_plan(open_baseline(first, Path("out")), plan_of(job), ["echo", "gsm8k"])
    assert refused.value.hint == "its tasks are echo"


def test_task_of_a_group_that_it_answered_is_there(job: Job, fake: Any, tmp_path: Path) -> None:
    run_job(job, tmp_path / "first", fake, tasks=["a_group"])
    assert taking(job, tmp_path / "first").baseline is not None


def test_dtype_is_compared_with_what_the_engine_had(job: Job, fake: Any, tmp_path: Path) -> None:
    run_job(job, tmp_path / "first", engine_with(fake, dtype="float32"))

    def asking(dtype: str) -> Job:
        return dataclasses.replace(job, config=job.config.model_copy(update={"dtype": dtype}))

    with pytest.raises(
        UsageError, match=r"first: its dtype is float32 and this run's is bfloat16$"
    ) as refused:
        taking(asking("bfloat16"), tmp_path / "first")
    assert refused.value.hint == "--dtype float32, or leave --baseline out"
    assert taking(asking("float32"), tmp_path / "first").baseline is not None


@pytest.mark.parametrize("dtype", ["auto", "float32"])
@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"runner": "V2"}, "its runner is fake and this run's is V2"),
        ({"device": "cuda"}, "its device is cpu and this run's is cuda"),
        ({"dtype": "bfloat16"}, "its dtype is float32 and this run's is bfloat16"),
        ({"vllm": "9"}, "its vllm is 0 and this run's is 9"),
    ],
)
def test_engine_of_another_kind_is_refused_once_loaded(
    job: Job, fake: Any, tmp_path: Path, facts: dict[str, str], said: str, dtype: str
) -> None:
    job = dataclasses.replace(job, config=job.config.model_copy(update={"dtype": dtype}))
    then = engine_with(fake, dtype="float32", device="cpu")
    run_job(job, tmp_path / "first", then)
    fake.asked.clear()
    now = engine_with(then, **facts)
    with pytest.raises(UsageError, match=said):
        rerun(job, tmp_path / "first", tmp_path / "second", now)
    assert fake.asked == []
    assert quality(tmp_path / "second", AR) == []


def test_engine_of_strict_is_compared_with_its_own(job: Job, fake: Any, tmp_path: Path) -> None:
    class Graphs(fake):
        graphs = "NONE"

        def ready(self) -> Any:
            super().ready()
            self.facts["graphs"] = "FULL" if self.spec.name == "ar" else self.graphs
            return self

    class Others(Graphs):
        graphs = "PIECEWISE"

    run_job(job, tmp_path / "first", Graphs)
    fake.asked.clear()
    rerun(job, tmp_path / "first", tmp_path / "second", Graphs)
    assert quality_asked(fake, job, tmp_path / "second") == {MARS: 6}
    with pytest.raises(
        UsageError, match=f"its graphs of {STRICT} is NONE and this run's is PIECEWISE"
    ):
        rerun(job, tmp_path / "first", tmp_path / "third", Others)


@pytest.mark.parametrize(
    ("there", "here", "said", "hint"),
    [
        ((6, 1), (12, 1), "number of documents of echo is 6 and this run's is 12", "--limit 6"),
        ((6, 1), (6, 3), "number of samples of echo is 1 and this run's is 3", "--samples 1"),
        ((6, 1), (12, 3), "number of samples of echo is 1 and this run's is 3", "--samples 1"),
    ],
)
def test_more_than_was_answered_is_refused(
    make_job: MakeJob,
    fake: Any,
    tmp_path: Path,
    there: tuple[int, int],
    here: tuple[int, int],
    said: str,
    hint: str,
) -> None:
    from mars_cli.evaluation.quality import prepare_prompts

    def asking(limit: int, samples: int) -> Job:
        job = make_job(samples=samples, temperature=1.0)
        prompts = prepare_prompts(job.tasks[0], job.tokenizer, job.settings, limit, samples)
        return dataclasses.replace(job, prompts={"echo": prompts}, limits={"echo": limit})

    run_job(asking(*there), tmp_path / "first", fake)
    with pytest.raises(UsageError, match=f"its {said}$") as refused:
        taking(asking(*here), tmp_path / "first")
    assert refused.value.hint == f"{hint}, or leave --baseline out"


def test_other_length_limit_is_named(job: Job, first: Path) -> None:
    with pytest.raises(
        UsageError, match=r"its max_tokens of echo is 8 and this run's is 4$"
    ) as refused:
        taking(with_prompts(job, max_tokens=4), first)
    assert refused.value.hint == "--max-tokens 8, or leave --baseline out"


def test_other_context_is_named(job: Job, first: Path) -> None:
    longer = dataclasses.replace(job, settings=dataclasses.replace(job.settings, max_model_len=128))
    with pytest.raises(UsageError, match=r"its max_model_len is 64 and this run's is 128$"):
        taking(longer, first)


def test_other_chat_template_is_named(job: Job, first: Path) -> None:
    config = job.config.model_copy(update={"chat_template": False})
    plain = with_prompts(dataclasses.replace(job, config=config), token_ids=[5, 6])
    with pytest.raises(UsageError, match=r"its chat_template is true and this run's is false$"):
        taking(plain, first)


def test_other_data_is_named(make_job: MakeJob, first: Path) -> None:
    job = make_job(code=CODE.replace('f"q{n}"', 'f"Q{n}"'))
    with pytest.raises(UsageError, match=r"its prompts of echo are not those of this run$"):
        taking(job, first)


@pytest.mark.parametrize("lane", [AR, STRICT])
def test_lane_that_was_partly_answered_is_refused(job: Job, first: Path, lane: str) -> None:
    path = first / f"records/quality/echo/{lane}.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    with pytest.raises(
        UsageError, match=f"has only 4 of the 6 answers of {lane} to echo that this run needs$"
    ) as refused:
        taking(job, first)
    assert refused.value.hint == "finish that run first: its own command again resumes it"


def test_run_without_answers_of_ar_is_refused(job: Job, fake: Any, tmp_path: Path) -> None:
    fake.fail_to_load = {"ar"}
    run_job(job, tmp_path / "first", fake)
    with pytest.raises(UsageError, match=r": has no answers of ar to echo$"):
        taking(job, tmp_path / "first")


def test_records_under_other_keys_are_never_taken(job: Job, first: Path) -> None:
    path = first / f"records/quality/echo/{AR}.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[3]["key"] = "0" * 16
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(UsageError, match="of ar to echo are recorded under other keys"):
        taking(job, first)
