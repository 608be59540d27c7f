"""What is typed, and what a file says, to the groups of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mars_cli.commands import sweep
from mars_cli.errors import UsageError


def parsed(*arguments: str) -> dict[str, Any]:
    context = sweep.command.make_context("sweep", list(arguments))
    options = dict(context.params)
    if options["config"] is not None:
        options |= sweep._from_file(context, sweep._file(options["config"]))
    return options


def file_with(folder: Path, text: str) -> str:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return str(path)


def test_the_whole_grid_can_be_typed_again() -> None:
    asked = [
        "--model",
        "m",
        "--theta",
        "0.84:0.9:0.02",
        "--theta",
        "0.95",
        "--k",
        "7,10",
        "--temperature",
        "0,1",
        "--limit",
        "3",
        "--concurrency",
        "1,8",
        "--prompts",
        "a.jsonl",
        "--data",
        "x=y",
        "--engine-arg",
        "a=b",
        "--no-fidelity",
        "--sequential",
        "--allow-code-execution",
        "--min-recovery",
        "95",
        "--rule",
        "topk:k=3",
    ]
    options = parsed(*asked)
    again = parsed(*sweep._typed(options))
    assert {k: v for k, v in again.items() if k != "config"} == {
        k: v for k, v in options.items() if k != "config"
    }
    assert [g.arguments for g in sweep._groups(again)] == [
        g.arguments for g in sweep._groups(options)
    ]


def test_a_file_gives_what_the_command_line_does_not(tmp_path: Path) -> None:
    text = "theta: '0.8:0.9:0.1'\nk: [7, 10]\nlimit: 5\nfidelity: false\ndata: {t: f}\ntasks: a,b\n"
    options = parsed(file_with(tmp_path, text), "--limit", "9", "--k", "3")
    assert options["limit"] == 9
    assert options["k"] == ("3",)
    assert options["theta"] == ("0.8:0.9:0.1",)
    assert options["fidelity"] is False
    assert options["data"] == {"t": "f"}
    groups = sweep._groups(options)
    assert [group.rules for group in groups] == [("--theta", "0.8", "--theta", "0.9")]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour: red", "key colour: is no option"),
        ("out: x", "key out: is no option"),
        ("limit: x", "--limit"),
        ("fidelity: 3", "key fidelity: expected true or false"),
        ("- a", "expected a mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, named: str) -> None:
    path = file_with(tmp_path, text)
    with pytest.raises(UsageError, match=named) as caught:
        parsed(path)
    assert path in str(caught.value)


@pytest.mark.parametrize("name", ["paper-theta", "paper-k", "demo"])
def test_the_configured_sweeps_make_groups(name: str) -> None:
    options = parsed(name)
    assert len(sweep._groups(options)) == {"paper-theta": 2, "paper-k": 4, "demo": 2}[name]


def test_a_file_here_comes_before_a_sweep_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").write_text("k: [5]")
    assert parsed("demo")["k"] == ("5",)


def test_a_name_that_is_neither_is_told_what_there_is() -> None:
    with pytest.raises(UsageError, match="nosuch: neither a file") as caught:
        parsed("nosuch")
    assert "demo, paper-k, paper-theta" in (caught.value.hint or "")


def test_each_slot_takes_as_many_gpus_as_an_engine_needs() -> None:
    options = parsed("--gpus", "0,1,2,3", "--engine-arg", "tensor_parallel_size=2")
    assert [slot["CUDA_VISIBLE_DEVICES"] for slot in sweep._slots(options)] == ["0,1", "2,3"]
    with pytest.raises(UsageError, match="takes 8 GPUs"):
        sweep._slots(parsed("--gpus", "0,1", "--engine-arg", "tensor_parallel_size=8"))
    with pytest.raises(UsageError, match="--gpus 0,0"):
        sweep._slots(parsed("--gpus", "0,0"))


def test_a_rule_alone_brings_no_thetas() -> None:
    (group,) = sweep._groups(parsed("--rule", "topk:k=3"))
    assert group.rules == ("--rule", "topk:k=3")
