"""Prompts of one's own: what a line may be, and turns that follow on a lane's own answers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mars_cli.errors import UsageError
from mars_cli.evaluation.conversations import read_conversations
from mars_cli.evaluation.evaluate import evaluate
from mars_cli.evaluation.job import Job
from mars_cli.evaluation.quality import prepare_prompts
from mars_cli.evaluation.tasks import prompt_tasks
from mars_cli.runs.files import read_records
from mars_cli.runs.run import Run
from tests.unit.evaluation.conftest import Silent

PLAN = {"model": {"name": "fake"}, "allow_code_execution": False}
LINES: list[dict[str, Any]] = [
    {"question_id": 1, "category": "writing", "turns": ["one", "two", "three"]},
    {"category": "math", "messages": [{"role": "system", "content": "s"},
                                      {"role": "user", "content": "u"}]},
    {"prompt": "plain", "max_tokens": 3},
]  # fmt: skip


def written(folder: Path, lines: list[Any], name: str = "mine.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def conversing(job: Job, folder: Path, lines: list[Any]) -> Job:
    folder.mkdir(exist_ok=True)
    (task,) = prompt_tasks([written(folder, lines)])
    settings = dataclasses.replace(job.settings, max_tokens=8)
    prompts = {task.name: prepare_prompts(task, job.tokenizer, settings, None)}
    return dataclasses.replace(
        job, tasks=[task], prompts=prompts, settings=settings, limits={task.name: None}
    )


@pytest.fixture
def room(job: Job) -> Job:
    """A context that holds three turns."""
    return dataclasses.replace(job, settings=dataclasses.replace(job.settings, max_model_len=900))


def run_job(job: Job, folder: Path, fake: Any) -> dict[str, Any]:
    with Run(folder, PLAN, {}) as run:
        return evaluate(job, run, Silent(), make_engine=fake)


def test_every_kind_of_line_is_read(tmp_path: Path) -> None:
    turns, chat, plain = read_conversations(written(tmp_path, LINES))
    assert turns.messages == ({"role": "user", "content": "one"},)
    assert (turns.follow_ups, turns.category) == (("two", "three"), "writing")
    assert [message["role"] for message in chat.messages] == ["system", "user"]
    assert (plain.follow_ups, plain.category, plain.max_tokens) == ((), None, 3)


def test_an_answer_at_the_end_is_left_out_and_parts_of_text_are_joined(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    lines = [{"messages": [{"role": "user", "content": parts},
                           {"role": "assistant", "content": "known"}]}]  # fmt: skip
    (found,) = read_conversations(written(tmp_path, lines))
    assert found.messages == ({"role": "user", "content": "ab"},)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"question": "x"}, 'field "prompt"'),
        ({"prompt": ""}, 'field "prompt"'),
        ({"turns": []}, 'field "turns"'),
        ({"turns": ["a", 3]}, 'field "turns"'),
        ({"messages": []}, 'field "messages"'),
        ({"messages": [{"role": "human", "content": "x"}]}, 'field "messages\\[0\\]"'),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, 'field "messages\\[0\\]"'),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 'field "messages"'),
        ({"prompt": "x", "max_tokens": 0}, 'field "max_tokens"'),
        ({"prompt": "x", "category": 4}, 'field "category"'),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_place(
    tmp_path: Path, line: dict[str, Any], named: str
) -> None:
    path = written(tmp_path, [{"prompt": "fine"}, line])
    with pytest.raises(UsageError, match=f"mine.jsonl, line 2, {named}"):
        read_conversations(path)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [written(tmp_path, LINES), written(tmp_path / "other", LINES)]
    with pytest.raises(UsageError, match="a second file named mine"):
        prompt_tasks(paths)


def test_each_later_turn_holds_the_lanes_own_answers(room: Job, fake: Any, tmp_path: Path) -> None:
    class Speaking(fake):
        def generate(self, requests: Any, concurrency: int = 1) -> Any:
            for one in super().generate(requests, concurrency):
                yield dataclasses.replace(one, text=f"<{self.rule}>")

    job = conversing(room, tmp_path / "data", LINES)
    results = run_job(job, tmp_path / "run", Speaking)
    assert results["run"]["status"] == "complete"
    for lane, rule in (("ar", "none"), ("strict-ngram-k7", "strict")):
        records = list(read_records(tmp_path / f"run/records/quality/mine/{lane}.jsonl"))
        turns = sorted((r["doc_id"], r["turn"]) for r in records)
        assert turns == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0)]
        (last,) = [r for r in records if r["turn"] == 2]
        text = job.tokenizer.decode(last["prompt_token_ids"])
        assert text.replace(" ", "") == (
            f"<s><user>one<assistant><{rule}><user>two<assistant><{rule}><user>three<assistant>"
        )


def test_later_turns_are_timed_and_rescored_and_nothing_is_asked_twice(
    room: Job, fake: Any, tmp_path: Path
) -> None:
    job = dataclasses.replace(
        conversing(room, tmp_path / "data", LINES), fidelity=True, concurrency=(1, 2)
    )
    first = run_job(job, tmp_path / "run", fake)
    speed = list(read_records(tmp_path / "run/records/speed/mine.jsonl"))
    turns, repeats, levels = 3 + 1, 2, 2  # of the two conversations timed
    assert len(speed) == turns * repeats * levels * 4
    assert {r["turn"] for r in speed} == {0, 1, 2}
    scored = list(read_records(tmp_path / "run/records/fidelity/mine/ar.jsonl"))
    assert len(scored) == 5
    fake.asked.clear()
    fake.scored.clear()
    second = run_job(job, tmp_path / "run", fake)
    assert (fake.asked, fake.scored) == ([], [])
    assert second["tasks"] == first["tasks"]


def test_results_are_split_by_category(room: Job, fake: Any, tmp_path: Path) -> None:
    job = conversing(room, tmp_path / "data", LINES)
    task = run_job(job, tmp_path / "run", fake)["tasks"]["mine"]
    assert task["n"] == 3
    assert {name: part["n"] for name, part in task["categories"].items()} == {
        "writing": 1,
        "math": 1,
    }
    row = task["categories"]["math"]["lanes"]["strict-ngram-k7"]
    assert row["tokens"] < task["lanes"]["strict-ngram-k7"]["tokens"]
    assert any("nothing scores this task" in note for note in task["notes"])


def test_a_category_that_no_answered_document_has_is_left_out(
    room: Job, fake: Any, tmp_path: Path
) -> None:
    job = conversing(room, tmp_path / "data", LINES)
    keeping_one = {task.name: job.prompts[task.name][:1] for task in job.tasks}
    results = run_job(dataclasses.replace(job, prompts=keeping_one), tmp_path / "run", fake)
    assert list(results["tasks"]["mine"]["categories"]) == ["writing"]


def test_a_line_may_set_its_own_length(room: Job, tmp_path: Path) -> None:
    (task,) = prompt_tasks([written(tmp_path, LINES)])
    prompts = prepare_prompts(task, room.tokenizer, room.settings, None)
    assert [prompt.max_tokens for prompt in prompts] == [512, 512, 3]


def test_a_prompt_that_does_not_fit_can_be_refused(room: Job, tmp_path: Path) -> None:
    (task,) = prompt_tasks([written(tmp_path, [{"prompt": "x" * 2000, "max_tokens": 8}])])
    (cut,) = prepare_prompts(task, room.tokenizer, room.settings, None)
    assert cut.truncated
    refusing = dataclasses.replace(room.settings, refuse_overflow=True)
    with pytest.raises(UsageError, match="task mine, document 0: its prompt leaves no room"):
        prepare_prompts(task, room.tokenizer, refusing, None)
