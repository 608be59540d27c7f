"""`--baseline`: which answers of an earlier run are taken, what they count as, what is refused."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mars_cli.cli import main
from mars_cli.config import ModelConfig
from mars_cli.engine.lane import Draft, plan_lanes
from mars_cli.engine.protocol import EngineSpec
from mars_cli.errors import UsageError
from mars_cli.evaluation import evaluate as module
from mars_cli.evaluation.baseline import check_plan, open_baseline, settle
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.runs.files import read_records, write_json
from mars_cli.runs.run import Run, read_manifest
from mars_cli.verification.spec import RuleSpec
from tests.unit.evaluation.conftest import CODE, TASK, Silent

AR, STRICT, MARS = "ar", "strict-ngram-k7", "mars-ngram-k7-t0.9"
NOTE = "answers taken from run first"
MakeJob = Callable[..., Job]


def plan_of(job: Job, **changes: Any) -> dict[str, Any]:
    return {
        "model": job.config.model_dump(exclude={"defaults"}),
        "fingerprint": job.fingerprint,
        "tasks": [task.name for task in job.tasks],
        "temperature": job.settings.temperature,
        "seed": job.lanes[0].seed,
        "samples": job.samples,
        "engine_args": {},
        "allow_code_execution": False,
        "vllm": "0",
        "mars": "1",
        "baseline": None,
        **changes,
    }


def run_job(job: Job, folder: Path, make: Any, **changes: Any) -> dict[str, Any]:
    with Run(folder, plan_of(job, **changes), {}) as run:
        return evaluate(job, run, Silent(), make_engine=make)


def taking(job: Job, folder: Path, out: Path = Path("elsewhere"), **changes: Any) -> Job:
    """The job with its answers from the run in `folder` where it may take them."""
    baseline = settle(open_baseline(folder, out), job, plan_of(job, **changes))
    return dataclasses.replace(job, baseline=baseline)


def rerun(job: Job, folder: Path, out: Path, make: Any) -> dict[str, Any]:
    """Run the job in `out`, taking from the run in `folder`."""
    return run_job(taking(job, folder, out), out, make, baseline=folder.name)


def quality(folder: Path, lane: str) -> list[dict[str, Any]]:
    return list(read_records(folder / f"records/quality/echo/{lane}.jsonl"))


def quality_asked(fake: Any, job: Job, folder: Path) -> Counter[str]:
    """How often each lane's engine was asked for a quality record of the run in `folder`."""
    lane_of = {r["key"]: lane.id for lane in job.lanes for r in quality(folder, lane.id)}
    return Counter(lane_of[key] for _, key in fake.asked if key in lane_of)


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def with_lanes(job: Job, draft: Draft, k: int) -> Job:
    lanes = plan_lanes(draft, k, [RuleSpec.of("mars", theta=0.9)], None, 0)
    specs = {lane.engine_id: EngineSpec(lane.engine_id, {}) for lane in lanes}
    return dataclasses.replace(job, lanes=lanes, specs=specs)


def with_prompts(job: Job, **changes: Any) -> Job:
    prompts = {
        name: [dataclasses.replace(one, **changes) for one in found]
        for name, found in job.prompts.items()
    }
    return dataclasses.replace(job, prompts=prompts)


def engine_with(fake: Any, **facts: Any) -> Any:
    class Other(fake):
        def ready(self) -> Any:
            super().ready()
            self.facts.update(facts)
            return self

    return Other


@pytest.fixture
def first(job: Job, fake: Any, tmp_path: Path) -> Path:
    """A complete run of `job`."""
    folder = tmp_path / "first"
    run_job(job, folder, fake)
    fake.asked.clear()
    fake.requests.clear()
    return folder


# -- what is taken -----------------------------------------------------------------------------


def test_answers_of_ar_and_the_same_strict_are_copied_and_all_else_is_made(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    results = rerun(job, first, tmp_path / "second", fake)
    assert results["run"]["status"] == "complete"
    for lane in (AR, STRICT):
        copied = quality(tmp_path / "second", lane)
        assert {record["from"] for record in copied} == {"first"}
        assert all("session" not in record for record in copied)
        assert [without(record, "from") for record in copied] == [
            without(record, "session") for record in quality(first, lane)
        ]
        assert all(record["scores"] is not None for record in copied)
    assert all("from" not in record for record in quality(tmp_path / "second", MARS))
    assert quality_asked(fake, job, tmp_path / "second") == {MARS: 6}
    timed = list(read_records(tmp_path / "second/records/speed/echo.jsonl"))
    assert len(timed) == 2 * 2 * 4
    assert {record["session"] for record in timed} == {1}


def test_results_are_those_of_a_run_of_its_own_and_say_what_was_taken(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    whole = json.loads((first / "results.json").read_text())["tasks"]["echo"]
    found = rerun(job, first, tmp_path / "second", fake)["tasks"]["echo"]
    assert found["lanes"] == whole["lanes"]
    said = [f"{AR}: {NOTE}", f"{STRICT}: {NOTE}"]
    assert [note for note in found["notes"] if note not in whole["notes"]] == said
    assert f"{AR}: {NOTE}" in (tmp_path / "second/report.md").read_text()


def test_copies_are_scored_as_this_run_scores(
    make_job: MakeJob, fake: Any, first: Path, tmp_path: Path
) -> None:
    job = make_job(code=CODE.replace("% 2 == 0", "% 2 == 1"))
    rerun(job, first, tmp_path / "second", fake)
    for before, after in zip(quality(first, AR), quality(tmp_path / "second", AR), strict=True):
        assert after["text"] == before["text"]
        score = before["scores"]["exact_match,none"]
        assert after["scores"] == {"exact_match,none": 1 - score}


def test_sessions_count_what_was_generated_only(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    rerun(job, first, tmp_path / "second", fake)
    manifest = read_manifest(tmp_path / "second")
    assert manifest is not None
    assert manifest["plan"]["baseline"] == "first"
    (session,) = manifest["sessions"]
    assert session["records"] == session["requests_started"] == 6 + 2 * 2 * 4 + 6  # and the control
    assert session["in_flight_at_end"] == 0


def test_killed_session_is_settled_without_the_copies(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    class Dying(fake):
        def generate(self, requests: Any, concurrency: int = 1) -> Iterator[Any]:
            for done, generation in enumerate(super().generate(requests, concurrency)):
                if done == 2:
                    raise Killed
                yield generation

    out = tmp_path / "second"
    run = Run(out, plan_of(job, baseline="first"), {})
    run.__enter__()
    with pytest.raises(Killed):
        evaluate(taking(job, first, out), run, Silent(), make_engine=Dying)
    run._lock.release()  # __exit__ never ran
    fake.asked.clear()
    rerun(job, first, out, fake)
    manifest = read_manifest(out)
    assert manifest is not None
    killed, ended = manifest["sessions"]
    assert (killed["ended"], killed["records"], killed["in_flight_at_end"]) == ("killed", 2, 4)
    assert (ended["records"], ended["in_flight_at_end"]) == (4 + 2 * 2 * 4 + 6, 0)
    assert quality_asked(fake, job, out) == {MARS: 4}
    assert [len(quality(out, lane)) for lane in (AR, STRICT, MARS)] == [6, 6, 6]


def test_resume_copies_and_generates_nothing_again(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    out = tmp_path / "second"
    rerun(job, first, out, fake)
    before = [quality(out, lane) for lane in (AR, STRICT, MARS)]
    fake.asked.clear()
    results = rerun(job, first, out, fake)
    assert fake.asked == []
    assert [quality(out, lane) for lane in (AR, STRICT, MARS)] == before
    assert f"{AR}: {NOTE}" in results["tasks"]["echo"]["notes"]


def test_interrupted_copy_is_completed(job: Job, fake: Any, first: Path, tmp_path: Path) -> None:
    out = tmp_path / "second"
    rerun(job, first, out, fake)
    path = out / f"records/quality/echo/{AR}.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:30])
    fake.asked.clear()
    rerun(job, first, out, fake)
    assert fake.asked == []
    assert path.read_text().splitlines(keepends=True) == lines


def test_only_the_documents_that_this_run_needs_are_copied(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    few = dataclasses.replace(
        job, prompts={"echo": job.prompts["echo"][:4]}, limits={"echo": 4}, samples=None
    )
    results = rerun(few, first, tmp_path / "second", fake)
    assert [record["doc_id"] for record in quality(tmp_path / "second", AR)] == [0, 1, 2, 3]
    assert results["tasks"]["echo"]["n"] == 4
    assert quality_asked(fake, few, tmp_path / "second") == {MARS: 4}


def test_fewer_samples_are_taken_from_more(make_job: MakeJob, fake: Any, tmp_path: Path) -> None:
    run_job(make_job(samples=3, temperature=1.0), tmp_path / "first", fake)
    job = make_job(samples=2, temperature=1.0)
    rerun(job, tmp_path / "first", tmp_path / "second", fake)
    wanted = [(doc, sample) for doc in range(6) for sample in range(2)]
    copied = quality(tmp_path / "second", AR)
    assert [(record["doc_id"], record["sample"]) for record in copied] == wanted
    texts = {(r["doc_id"], r["sample"]): r["text"] for r in quality(tmp_path / "first", AR)}
    assert all(texts[r["doc_id"], r["sample"]] == r["text"] for r in copied)


@pytest.mark.parametrize(
    ("draft", "k"),
    [
        (ModelConfig(name="x", weights="y").draft("ngram"), 3),
        (Draft("ngram", {"method": "ngram", "prompt_lookup_max": 9}), 7),
        (Draft("other", {"method": "suffix"}), 7),
    ],
)
def test_only_ar_is_taken_where_strict_is_another(
    job: Job, fake: Any, first: Path, tmp_path: Path, draft: Draft, k: int
) -> None:
    other = with_lanes(job, draft, k)
    rerun(other, first, tmp_path / "second", fake)
    strict, mars = other.lanes[1].id, other.lanes[2].id
    assert quality_asked(fake, other, tmp_path / "second") == {strict: 6, mars: 6}
    assert all("from" in record for record in quality(tmp_path / "second", AR))


def test_weights_of_a_draft_are_nothing_to_ar(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    other = dataclasses.replace(job, fingerprint=["f", "draft"])
    rerun(other, first, tmp_path / "second", fake)
    assert quality_asked(fake, other, tmp_path / "second") == {STRICT: 6, MARS: 6}


def test_strict_that_was_never_reached_is_generated(
    job: Job, fake: Any, first: Path, tmp_path: Path
) -> None:
    (first / f"records/quality/echo/{STRICT}.jsonl").unlink()
    rerun(job, first, tmp_path / "second", fake)
    assert quality_asked(fake, job, tmp_path / "second") == {STRICT: 6, MARS: 6}


def test_baseline_of_a_baseline(job: Job, fake: Any, first: Path, tmp_path: Path) -> None:
    rerun(job, first, tmp_path / "second", fake)
    rerun(job, tmp_path / "second", tmp_path / "third", fake)
    assert {record["from"] for record in quality(tmp_path / "third", AR)} == {"second"}


# -- what is refused ---------------------------------------------------------------------------


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


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def command(
    tiny_checkpoint: Path, fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., int]]:
    """`mars eval` of the task with these arguments, in engines that pretend; gives its code."""
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "echo.yaml").write_text(TASK)
    (tasks / "echo.py").write_text(CODE)
    monkeypatch.setattr(module.evaluate, "__defaults__", (fake,))

    def run(*arguments: str) -> int:
        common = ["--model", str(tiny_checkpoint), "--include-path", str(tasks), "--tasks", "echo"]
        sizes = ["--limit", "6", "--engine-arg", "max_model_len=64", "--speed-prompts", "2"]
        with pytest.raises(SystemExit) as ended:
            main(["eval", *common, *sizes, *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code

    handler = signal.getsignal(signal.SIGTERM)
    levels = {name: logging.getLogger(name).level for name in ("lm_eval", "torch", "vllm")}
    with mock.patch.dict(os.environ):
        yield run
    signal.signal(signal.SIGTERM, handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_command_takes_what_it_may_and_resumes(
    command: Callable[..., int], fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert command("--out", first) == 0
    fake.asked.clear()
    again = ("--theta", "0.8", "--out", second, "--baseline", first)
    assert command(*again) == 0
    assert f"answers taken from {first}: ar, strict-ngram-k7" in capsys.readouterr().err
    assert {record["from"] for record in quality(tmp_path / "second", AR)} == {"first"}
    assert "from" not in quality(tmp_path / "second", "mars-ngram-k7-t0.8")[0]
    manifest = read_manifest(tmp_path / "second")
    assert manifest is not None
    assert manifest["plan"]["baseline"] == "first"
    fake.asked.clear()
    assert command(*again) == 0
    assert fake.asked == []


def test_command_refuses_and_writes_nothing(
    command: Callable[..., int], fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert command("--out", first) == 0
    capsys.readouterr()
    fake.asked.clear()
    for arguments, said in [
        (("--seed", "4"), "its seed is 0 and this run's is 4"),
        (("--max-tokens", "5"), "its max_tokens of echo is 8 and this run's is 5"),
        (("--limit", "12"), "its number of documents of echo is 6 and this run's is 12"),
    ]:
        assert command(*arguments, "--out", second, "--baseline", first) == 2
        told = capsys.readouterr().err
        assert f"error: --baseline {first}: {said}\n" in told
        assert ("preparing weights" in told) == ("seed" not in said)  # what the plan tells is first
    assert command("--out", first, "--baseline", first) == 2
    assert fake.asked == []
    assert not (tmp_path / "second").exists()
