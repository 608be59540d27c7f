"""Runs that take answers from another."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mars_cli.engine.lane import Draft, plan_lanes
from mars_cli.engine.protocol import EngineSpec
from mars_cli.evaluation.baseline import open_baseline, settle
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from mars_cli.verification.spec import RuleSpec
from tests.unit.evaluation.conftest import Silent

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
