"""Run directories as `mars eval` leaves them, made without an engine.

`make` computes a run's results from records; `by_hand` has figures written out, so that what is
printed of them is the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mars_cli.analysis.checked import checked
from mars_cli.analysis.compare import TaskInput, build_results
from tests.unit.analysis.built import LANES, MARS, STRICT, answer, full_speed, task

TASK, HARD = "mars_products", "mars_humaneval"
ENGINE = {"vllm": "0.32.0", "device": "cuda", "gpu": "NVIDIA H200", "dtype": "bfloat16"}
ENVIRONMENT = {"mars": "0.1.0", "cpu": "AMD EPYC", "cores": 16, "packages": {"lm-eval": "0.4.13"}}
PLAN = {
    "model": {"name": "tiny", "weights": "hub:org/tiny"},
    "tasks": [TASK],
    "temperature": None,
    "seed": 0,
    "samples": None,
    "data": {TASK: {"source": "reasoning-gym", "documents_sha256": "5eed" * 16}},
    "fingerprint": ["f00d"],
}
CREATED = "2026-11-29T18:02:00+00:00"
SCOPE = "Intervals are 95% over documents; they do not cover engine restarts or other machines."
LOW_BASE = "recovery: ar got 1 of 12 documents right; below 10 no ratio is given"


def right(flags: list[int], **fields: Any) -> list[dict[str, Any]]:
    """An answer to each document, right where its flag is 1."""
    return [answer(doc, float(flag), **fields) for doc, flag in enumerate(flags)]


def all_but(every: int, n: int = 40) -> list[int]:
    """Right in all of n documents but each `every`-th."""
    return [int(doc % every != 0) for doc in range(n)]


def quality(mars: int = 4, n: int = 40) -> dict[str, list[dict[str, Any]]]:
    """Answers of each lane; MARS gets each `mars`-th wrong, the others each fifth."""
    return {
        "ar": right(all_but(5, n), step=1),
        STRICT: right(all_but(5, n)),
        MARS: right(all_but(mars, n), step=3),
    }


def make(
    folder: Path,
    *,
    answers: dict[str, list[dict[str, Any]]] | None = None,
    engine: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    created: str = CREATED,
    status: str = "complete",
    results: bool | dict[str, Any] = True,
    prompts: dict[int, str] | None = None,
) -> Path:
    """A run directory of one task; `prompts` are hashes by document.

    `results` are given, or computed from the records, or left out where False.
    """
    given = task(quality() if answers is None else answers, full_speed())
    lanes = [{**lane, "engine": {**ENGINE, **(engine or {})}} for lane in LANES]
    manifest = {
        "schema": 1,
        "id": folder.name,
        "created": created,
        "plan": {**PLAN, **(plan or {})},
        "lanes": lanes,
        "sessions": [{"number": 1, "environment": ENVIRONMENT}],
        "status": status,
    }
    write(folder / "manifest.json", manifest)
    hashes = prompts or {doc: f"{doc:016x}" for doc in documents(given)}
    write_lines(
        folder / f"records/prompts/{TASK}.jsonl",
        [{"doc_id": doc, "sample": 0, "prompt": "?", "hash": hashes[doc]} for doc in hashes],
    )
    for lane, records in given.quality.items():
        write_lines(folder / f"records/quality/{TASK}/{lane}.jsonl", list(records))
    write_lines(folder / f"records/speed/{TASK}.jsonl", list(given.speed))
    if results:
        run = {key: manifest[key] for key in ("id", "created", "status")}
        found = results if isinstance(results, dict) else None
        found = found or build_results(run, PLAN["model"], ENVIRONMENT, lanes, {TASK: given})
        write(folder / "results.json", {**found, "run": run, "lanes": lanes})
    return folder


def by_hand(lanes: tuple[str, str, str] = ("ar", STRICT, MARS), faster: float = 0.0) -> Any:
    """Results with every kind of figure, a task without recovery, and notes."""
    ar, strict, mars = lanes
    products = {
        ar: {"score": 0.8, "recovery": 100.0, "acceptance_length": 1.0, "speedup": 1.0},
        strict: {
            "score": 0.8,
            "recovery": 100.0,
            "recovery_ci": [98.25, 101.75],
            "largest_loss": 1.75,
            "safe": True,
            "p_value": 1.0,
            "p_value_holm": 1.0,
            "acceptance_length": 1.25,
            "speedup": 1.03,
            "speedup_ci": [0.99, 1.07],
            "within_noise": True,
            "tokens_per_s": 20.6,
            "exact_match_ar": 1.0,
        },
        mars: {
            "score": 0.78,
            "score_ci": [0.69, 0.85],
            "recovery": 97.5,
            "recovery_ci": [90.0, 104.76],
            "largest_loss": 10.0,
            "safe": False,
            "p_value": 0.0125,
            "p_value_holm": 0.025,
            "n_paired": 100,
            "acceptance_length": 1.44,
            "acceptance_per_position": [0.5, 0.25],
            "speedup": 1.22 + faster,
            "speedup_ci": [1.17 + faster, 1.27 + faster],
            "decode_speedup": 1.25,
            "decode_speedup_ci": [1.2, 1.3],
            "strict_speedup": 1.18,
            "strict_speedup_ci": [1.13, 1.24],
            "within_noise": False,
            "tokens_per_s": 24.4,
            "ttft_ms": 12.5,
            "tpot_ms": 1234.5,
            "tokens": 12345,
            "fidelity": {"rank2_share": 0.03125, "violations": 0, "nll_delta": -0.125},
            "notes": ["length ratio: the answers are 1.25 times as long as ar's"],
        },
    }
    hard = {
        lane: {"score": 1 / 12, "recovery_note": "low_base", "notes": [LOW_BASE]} for lane in lanes
    }
    facts = {"metric": "acc,none", "speed_mode": "interleaved"}
    return checked(
        {
            "schema": 1,
            "run": {},
            "model": PLAN["model"],
            "environment": ENVIRONMENT,
            "tasks": {
                TASK: {**facts, "n": 100, "n_speed": 8, "lanes": products},
                HARD: {**facts, "n": 12, "lanes": hard},
            },
            "noise": {TASK: {"aa_speedup": 1.01, "aa_ci": [0.97, 1.05]}},
            "overall": {
                ar: {"speedup": 1.0, "recovery": 100.0, "acceptance_length": 1.0},
                strict: {"speedup": 1.03, "recovery": 100.0, "acceptance_length": 1.25},
                mars: {
                    "speedup": 1.22 + faster,
                    "strict_speedup": 1.18,
                    "recovery": 97.5,
                    "acceptance_length": 1.44,
                },
            },
            "notes": [SCOPE],
        }
    )


def documents(given: TaskInput) -> list[int]:
    return sorted({one["doc_id"] for records in given.quality.values() for one in records})


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    write(path, value)
