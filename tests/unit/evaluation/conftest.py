from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mars_cli.config import ModelConfig
from mars_cli.engine.lane import plan_lanes
from mars_cli.engine.protocol import EngineSpec, Generation, Request, ScoreRequest
from mars_cli.errors import EngineError
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.lm import Settings
from mars_cli.evaluation.quality import prepare_prompts
from mars_cli.evaluation.tasks import Task, load_tasks
from mars_cli.verification.spec import RuleSpec

TASK = """
task: echo
custom_dataset: !function echo.dataset
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
process_results: !function echo.score
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
generation_kwargs: {until: [], do_sample: false, max_gen_toks: 8}
num_fewshot: 0
metadata: {version: 1.0}
"""
CODE = """
def dataset(**_):
    from datasets import Dataset
    rows = [{"question": f"q{n}", "answer": f"a{n}"} for n in range(12)]
    shots = [{"question": f"s{n}", "answer": f"t{n}"} for n in range(40)]
    return {"test": Dataset.from_list(rows), "train": Dataset.from_list(shots)}

def score(document, results):
    return {"exact_match": float(len(results[0]) % 2 == 0)}
"""


class Silent:
    """Progress that nobody watches; keeps what was said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def phase(self, label: str, total: int, done: int = 0) -> AbstractContextManager[Any]:
        return nullcontext(lambda count: None)

    def note(self, message: str) -> None:
        self.notes.append(message)


class FakeEngine:
    """Answers at once, in lengths that prompt and seed decide; counts and fails on demand."""

    asked: ClassVar[list[tuple[str, str]]] = []
    requests: ClassVar[list[Request]] = []
    scored: ClassVar[list[tuple[str, ScoreRequest]]] = []
    fail_after: ClassVar[dict[str, int]] = {}
    fail_to_load: ClassVar[set[str]] = set()
    dies_again: ClassVar[bool] = False

    def __init__(self, spec: EngineSpec, log: Path) -> None:
        self.spec = spec
        self.facts: dict[str, Any] = {}
        self.rule = "none"
        self.deadline: float | None = None

    def start(self) -> FakeEngine:
        return self

    def ready(self) -> FakeEngine:
        if self.spec.name in FakeEngine.fail_to_load:
            raise EngineError(f"the engine {self.spec.name} failed: no such weights")
        self.facts = {"vllm": "0", "runner": "fake", "max_model_len": 64}
        return self

    def stop(self) -> None:
        pass

    def set_rule(self, spec: RuleSpec) -> None:
        self.rule = spec.name

    def generate(self, requests: list[Request], concurrency: int = 1) -> Iterator[Generation]:
        for request in requests:
            left = FakeEngine.fail_after.get(self.spec.name)
            if left is not None:
                if left == 0:
                    if not FakeEngine.dies_again:
                        del FakeEngine.fail_after[self.spec.name]
                    raise EngineError(f"the engine {self.spec.name} was killed by signal 9")
                FakeEngine.fail_after[self.spec.name] = left - 1
            FakeEngine.asked.append((self.spec.name, request.id))
            FakeEngine.requests.append(request)
            drawn = sum(request.prompt_token_ids) + request.sampling.get("seed", 0)
            tokens = min(2 + drawn % 5, request.max_tokens)
            steps = [1] * tokens
            yield Generation(
                id=request.id,
                token_ids=list(range(tokens)),
                text="x" * tokens,
                finish_reason="stop",
                step_tokens=steps,
                drafted=[0] * tokens,
                accepted=[0] * tokens,
                relaxed_at=[],
                stops_relaxed=int(self.rule == "mars" and tokens == 2),
                seconds=0.1 * tokens,
                ttft_s=0.1,
            )

    def peak_memory(self) -> dict[str, float | None]:
        return {"peak_memory_gib": 1.5, "peak_gpu_memory_gib": None}

    def score(self, requests: list[ScoreRequest]) -> Iterator[tuple[str, list[list[float]]]]:
        for request in requests:
            FakeEngine.scored.append((self.spec.name, request))
            yield request.id, [[9.0, 9.0, 5.0, 9.1, 0.2, 0.0] for _ in request.token_ids]


@pytest.fixture
def fake() -> type[FakeEngine]:
    FakeEngine.asked, FakeEngine.requests, FakeEngine.scored = [], [], []
    FakeEngine.fail_after, FakeEngine.fail_to_load, FakeEngine.dies_again = {}, set(), False
    return FakeEngine


def echo_in(folder: Path, changes: dict[str, str] | None = None, code: str = CODE) -> Task:
    """The task with pieces of its YAML replaced."""
    text = TASK
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new)
    (folder / "echo.yaml").write_text(text)
    (folder / "echo.py").write_text(code)
    (task,) = load_tasks(["echo"], include=[folder])
    return task


@pytest.fixture(scope="session")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return echo_in(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="session")
def few_shot(tmp_path_factory: pytest.TempPathFactory) -> Task:
    shots = "num_fewshot: 2\ntraining_split: train\nfewshot_split: train"
    return echo_in(tmp_path_factory.mktemp("tasks"), {"num_fewshot: 0": shots})


def job_for(
    task: Task,
    tokenizer_folder: Path,
    *,
    samples: int | None = None,
    temperature: float | None = None,
    seed: int = 0,
    fidelity: bool = False,
) -> Job:
    from transformers import AutoTokenizer

    config = ModelConfig(name="fake", weights="nowhere").with_drafts(["ngram"])
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    settings = Settings(max_model_len=64, chat_template=True, temperature=temperature)
    mars = RuleSpec.of("mars", theta=0.9)
    return Job(
        config=config,
        weights="nowhere",
        fingerprint=["f"],
        lanes=plan_lanes(config.draft("ngram"), 7, [mars], temperature, seed),
        tasks=[task],
        specs={name: EngineSpec(name, {}) for name in ("ar", "ngram-k7")},
        tokenizer=tokenizer,
        settings=settings,
        prompts={"echo": prepare_prompts(task, tokenizer, settings, 6, samples)},
        limits={"echo": 6},
        speed_prompts=2,
        repeats=2,
        max_num_seqs=4,
        samples=samples,
        fidelity=fidelity,
    )


@pytest.fixture
def job(echo: Task, tiny_tokenizer: Path) -> Job:
    return job_for(echo, tiny_tokenizer)


@pytest.fixture
def few_shot_job(few_shot: Task, tiny_tokenizer: Path) -> Job:
    return job_for(few_shot, tiny_tokenizer)


@pytest.fixture
def make_job(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Path) -> Callable[..., Job]:
    """A job of the task with changes to its YAML; otherwise as `job_for`."""

    def make(changes: dict[str, str] | None = None, code: str = CODE, **options: Any) -> Job:
        task = echo_in(tmp_path_factory.mktemp("tasks"), changes, code)
        return job_for(task, tiny_tokenizer, **options)

    return make


@pytest.fixture
def first(job: Job, fake: Any, tmp_path: Path) -> Path:
    """A complete run of `job`, which others may take answers from."""
    from tests.unit.evaluation.taking import run_job

    folder = tmp_path / "first"
    run_job(job, folder, fake)
    fake.asked.clear()
    fake.requests.clear()
    return folder
