"""`mars tasks`: what a user sees, in 80 columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mars_cli.commands.tasks import command
from mars_cli.errors import UsageError


def listed(*arguments: str) -> str:
    """What is printed; a console that is no terminal has 80 columns."""
    run = CliRunner().invoke(command, arguments, catch_exceptions=False, env={"COLUMNS": "80"})
    assert run.exit_code == 0, run.output
    assert max(map(len, run.stdout.splitlines())) <= 80
    return run.stdout


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.split()


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MARS_DATA", raising=False)


@pytest.fixture
def few_of_lm_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval with the tasks of a few of its folders: reading all takes 10 s."""
    tasks = pytest.importorskip("lm_eval.tasks")
    defaults = Path(tasks.__file__).parent
    some = [defaults / name for name in ("gsm8k", "mbpp", "piqa", "minerva_math")]
    whole = tasks.TaskManager

    def manager(include_defaults: bool) -> object:
        assert include_defaults
        return whole(include_path=some, include_defaults=False)

    monkeypatch.setattr(tasks, "TaskManager", manager)


def test_our_tasks_are_listed_with_what_is_known_of_them() -> None:
    text = listed()
    assert row(text, "task") == ["task", "n", "metric", "offline", "code", "data"]
    assert row(text, "mars_gsm8k")[1:] == ["1319", "exact_match", "no", "no", "hub:openai/gsm8k"]
    assert row(text, "mars_products")[1:5] == ["100", "exact_match", "yes", "no"]
    assert row(text, "mars_humaneval")[1:5] == ["164", "pass@1", "yes", "yes"]
    assert row(text, "mars_mtbench")[1:5] == ["80", "unscored", "no", "no"]
    assert "mars_offline = mars_products, mars_gsm_symbolic, mars_humaneval" in text
    assert "mars_paper = mars_mtbench" in text


def test_a_file_in_the_data_folder_shows_as_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mars_gsm8k.jsonl").touch()
    monkeypatch.setenv("MARS_DATA", str(tmp_path))
    text = listed()
    assert row(text, "mars_gsm8k")[1:5] == ["–", "exact_match", "yes", "no"]  # noqa: RUF001
    assert "openai/gsm8k" not in text


@pytest.mark.usefixtures("few_of_lm_eval")
def test_a_part_of_a_name_finds_ours_and_lm_evals() -> None:
    text = listed("GSM8K")
    assert row(text, "mars_gsm8k")[1] == "1319"
    shown = ["–", "exact_match", "no", "no", "hub:openai/gsm8k", "main"]  # noqa: RUF001
    assert row(text, "gsm8k")[1:] == shown
    assert "mars_products" not in text
    assert "refused" not in text


@pytest.mark.usefixtures("few_of_lm_eval")
def test_a_glob_is_of_the_whole_name() -> None:
    text = listed("*mbpp")
    assert row(text, "mbpp")[2:5] == ["pass_at_1", "no", "yes"]
    assert "mbpp_instruct" not in text
    assert "refused: use ours" in text


@pytest.mark.usefixtures("few_of_lm_eval")
def test_groups_and_tags_are_shown_with_their_members() -> None:
    text = listed("math_word")
    assert text.startswith("math_word_problems = minerva_math500, ")
    assert "minerva_math_precalc" in text
    assert listed("mars_off").startswith("mars_offline = mars_products, ")


@pytest.mark.usefixtures("few_of_lm_eval")
def test_tasks_that_score_likelihoods_are_only_counted() -> None:
    assert listed("piqa").startswith("1 more match, but score likelihoods")


@pytest.mark.usefixtures("few_of_lm_eval")
def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(UsageError, match="nosuch: no task's name matches"):
        listed("nosuch")
