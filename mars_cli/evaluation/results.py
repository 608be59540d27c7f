"""From a run's records to results.json and report.md."""

from __future__ import annotations

from typing import Any

from mars_cli.analysis.compare import TaskInput, build_results
from mars_cli.evaluation.fidelity import obstacle
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.tasks import Task
from mars_cli.report.markdown import markdown
from mars_cli.runs.files import read_records, write_atomic, write_json
from mars_cli.runs.run import Run


def write_results(job: Job, run: Run) -> dict[str, Any]:
    """Derive results.json and report.md from the records; return the results."""
    lane_ids = [lane.id for lane in job.lanes]
    tasks = {
        task.name: TaskInput(
            name=task.name,
            metric=task.metric,
            higher_is_better=task.higher_is_better,
            speed_mode="sequential" if job.sequential else "interleaved",
            quality={lane: list(read_records(run.quality(task.name, lane))) for lane in lane_ids},
            speed=list(read_records(run.speed(task.name))),
            notes=_notes(job, run, task),
            directions=task.directions,
            sampled=not job.greedy(task.name),
            samples=job.samples,
            fidelity={lane: list(read_records(run.fidelity(task.name, lane))) for lane in lane_ids},
            fidelity_obstacle=obstacle(job.prompts[task.name]),
            control=list(read_records(run.control(task.name))),
            divergence=list(read_records(run.divergence(task.name))),
            categories={
                doc_id: found.category
                for doc_id, found in (task.conversations or {}).items()
                if found.category is not None
            },
        )
        for task in job.tasks
    }
    manifest = run.manifest
    results = build_results(
        run={key: manifest[key] for key in ("id", "created", "status")},
        model=manifest["plan"]["model"],
        environment=run.session["environment"],
        lanes=manifest["lanes"],
        tasks=tasks,
    )
    write_json(run.folder / "results.json", results)
    write_atomic(run.folder / "report.md", markdown(results))
    run.save()
    return results


def _notes(job: Job, run: Run, task: Task) -> list[str]:
    """What a reader of this task's figures must know, in sentences."""
    notes = [
        f"{failure['phase']} failed for {', '.join(failure['lanes'])}: {failure['reason']}"
        for failure in run.manifest["failures"]
        if failure["task"] in (None, task.name)
    ]
    prompts = [prompt for prompt in job.prompts[task.name] if prompt.sample == 0]
    for lane in job.lanes:
        records = read_records(run.quality(task.name, lane.id))
        for earlier in dict.fromkeys(record["from"] for record in records if "from" in record):
            notes.append(f"{lane.id}: answers taken from run {earlier}")
    cut = sum(prompt.truncated for prompt in prompts)
    if cut:
        notes.append(f"{cut} of {len(prompts)} prompts were cut from the left to fit the context")
    if job.samples is not None and job.samples > 1 and not any(p.varies for p in prompts):
        notes.append("no chance is in this task's decoding: all samples of a document are equal")
    if not task.is_scored:
        notes.append("nothing scores this task: speed, acceptance and fidelity are measured")
    if task.runs_code and not run.plan["allow_code_execution"]:
        notes.append("answers are code, which was not run: --allow-code-execution scores them")
    if task.metric.partition(",")[0] in task.corpus_metrics:
        notes.append(f"{task.metric} is no mean over documents, and is not computed here")
    few = max((c for c in job.concurrency), default=1)
    timed = len(job.to_time(task.name))
    if 0 < timed < few:
        notes.append(
            f"speed: no more than {timed} of {few} requests were in flight: {timed} prompts"
        )
    sessions: dict[tuple[int, ...], set[int]] = {}
    for record in read_records(run.speed(task.name)):
        at = record["concurrency"]
        place = (at, *((record["doc_id"], record["turn"]) if at == 1 else (0, 0)), record["repeat"])
        sessions.setdefault(place, set()).add(record["session"])
    mixed = sum(len(numbers) > 1 for numbers in sessions.values())
    if mixed and not job.sequential:
        notes.append(f"{mixed} of {len(sessions)} timed rounds were interrupted and went on later")
    return notes
