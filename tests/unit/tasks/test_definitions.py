"""Our task YAMLs are complete, and docs/tasks.md says what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mars_cli import references
from mars_cli.evaluation.catalog import our_settings

PAGE = Path(__file__).parents[3] / "docs" / "tasks.md"
SETTINGS = {each["task"]: each for each in our_settings() if "group" not in each}
GROUPS = {each["group"]: each["task"] for each in our_settings() if "group" in each}
SPEC_BENCH = {
    "mars_aime25",
    "mars_alpaca",
    "mars_cnndm",
    "mars_math500",
    "mars_mtbench",
    "mars_wmt19_zhen",
}


def test_lm_eval_finds_our_tasks_and_groups_and_nothing_else(manager: Any) -> None:
    assert manager.all_tasks == sorted([*SETTINGS, *GROUPS])
    assert set(manager.all_groups) == set(GROUPS)


@pytest.mark.parametrize("name", SETTINGS)
def test_our_reading_of_a_yaml_is_lm_evals(manager: Any, name: str) -> None:
    theirs, ours = manager.task_index[name].cfg, SETTINGS[name]
    assert theirs.keys() == ours.keys()
    assert theirs["metadata"] == ours["metadata"]
    assert theirs["generation_kwargs"] == ours["generation_kwargs"]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_definition_says_what_a_list_of_tasks_needs(name: str) -> None:
    config = SETTINGS[name]
    assert config["output_type"] == "generate_until"
    assert config["num_fewshot"] == 0
    assert config["generation_kwargs"]["do_sample"] is False
    assert config["generation_kwargs"]["max_gen_toks"] > 0
    assert config["generation_kwargs"]["until"] == []
    metadata = config["metadata"]
    assert metadata["version"] == 1.0
    assert metadata["documents"] > 0
    assert metadata["prompt"]
    assert metadata["runs_code"] is config.get("unsafe_code", False)
    kind, _, rest = metadata["data"].partition(":")
    assert metadata["offline"] is (kind != "hub")
    if kind == "generated":
        assert rest
        assert "files" not in metadata
    else:
        references.parse(metadata["data"])
        assert metadata["files"]


def test_the_papers_group_holds_its_nine_tasks() -> None:
    missing = {"mars_products", "mars_gsm_symbolic"}
    assert set(GROUPS["mars_paper"]) == SETTINGS.keys() - missing
    assert len(GROUPS["mars_paper"]) == 9


def test_the_offline_group_holds_what_needs_neither_hub_nor_file() -> None:
    offline = {name for name, each in SETTINGS.items() if each["metadata"]["offline"]}
    assert set(GROUPS["mars_offline"]) == offline


# --- docs/tasks.md --------------------------------------------------------------------------------


def row_of(name: str) -> list[str]:
    """What the page's table should say of a task."""
    config = SETTINGS[name]
    metadata = config["metadata"]
    data = " ".join(filter(None, [metadata["data"], metadata.get("config")]))
    return [
        name,
        data + (f", {metadata['split']}" if "split" in metadata else ""),
        str(metadata["documents"]),
        ", ".join(each["metric"] for each in config["metric_list"]),
        metadata["prompt"],
        "yes" if metadata["offline"] else "no",
        "yes" if metadata["runs_code"] else "no",
    ]


def test_the_table_in_the_docs_says_what_the_yamls_say() -> None:
    lines = re.findall(r"^\| mars_.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert rows == [row_of(name) for name in sorted(SETTINGS)]


def test_the_docs_name_every_group_and_all_tasks_that_take_spec_bench() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for group in GROUPS:
        assert f"`{group}`" in text
    (sentence,) = re.findall(r"((?:`mars_\w+`[\s,and]*)+)\s*also take", text)
    assert set(re.findall(r"mars_\w+", sentence)) == SPEC_BENCH


@pytest.mark.parametrize("name", sorted(SPEC_BENCH))
def test_a_question_in_spec_benchs_form_is_asked_as_it_is(
    manager: Any, name: str, tmp_path: Path
) -> None:
    from tests.unit.tasks.loading import load_rows

    row = {"question_id": 7, "category": "c", "turns": ["Say 12.", "Again."], "reference": ["12"]}
    task = load_rows(manager, name, tmp_path / "f.jsonl", row)
    (doc,) = task.eval_docs
    assert task.doc_to_text(doc) == "Say 12."
    assert doc["turns"] == ["Say 12.", "Again."]
