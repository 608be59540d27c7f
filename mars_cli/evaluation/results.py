"""What a manifest keeps of a job so that its records can be read without it, and the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from mars_cli.analysis.documents import write_documents
from mars_cli.analysis.rebuild import rebuild
from mars_cli.analysis.stored import Stored
from mars_cli.evaluation.fidelity import obstacle
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.tasks import Task
from mars_cli.report.markdown import markdown
from mars_cli.runs.files import write_atomic, write_json
from mars_cli.runs.run import Run


def keep_facts(job: Job, run: Run) -> None:
    """Write into the manifest what `rebuild` needs beside records."""
    run.manifest["sequential"] = job.sequential
    run.manifest["tasks"] = {
        task.name: {
            "metric": task.metric,
            "higher_is_better": task.higher_is_better,
            "directions": task.directions,
            "sampled": not job.greedy(task.name),
            "fidelity_obstacle": obstacle(job.prompts[task.name]),
            "categories": {
                doc_id: found.category
                for doc_id, found in (task.conversations or {}).items()
                if found.category is not None
            },
            "notes": list(_notes(job, run, task)),
        }
        for task in job.tasks
    }
    groups = dict.fromkeys(group for task in job.tasks for group in task.groups)
    run.manifest["groups"] = [asdict(group) for group in groups]
    run.save()


def write_results(run: Run) -> dict[str, Any]:
    """Derive results.json, documents.json and report.md from manifest and records.

    Returns the results.
    """
    results = rebuild(run.folder, run.manifest)
    write_json(run.folder / "results.json", results)
    write_atomic(run.folder / "report.md", markdown(results))
    write_documents(Stored(run.folder, run.manifest, results))
    run.save()
    return results


def _notes(job: Job, run: Run, task: Task) -> Iterator[str]:
    """What a reader of this task's figures must know, as far as known before anything is run."""
    prompts = [prompt for prompt in job.prompts[task.name] if prompt.sample == 0]
    cut = sum(prompt.truncated for prompt in prompts)
    if cut:
        yield f"{cut} of {len(prompts)} prompts were cut from the left to fit the context"
    if job.samples is not None and job.samples > 1 and not any(p.varies for p in prompts):
        yield "no chance is in this task's decoding: all samples of a document are equal"
    if not task.is_scored:
        yield "nothing scores this task: speed, acceptance and fidelity are measured"
    if task.runs_code and not run.plan["allow_code_execution"]:
        yield "answers are code, which was not run: --allow-code-execution scores them"
    asked, timed = max(job.concurrency), len(job.to_time(task.name))
    if 0 < timed < asked:
        yield f"speed: with {timed} prompts no {asked} requests were in flight at once"
