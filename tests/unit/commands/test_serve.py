from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mars_cli.commands import serve
from mars_cli.errors import UsageError

pytest.importorskip("vllm")


def dry_run(model: Path, *arguments: str) -> str:
    run = CliRunner().invoke(
        serve.command,
        ["--model", str(model), "--dry-run", *arguments],
        catch_exceptions=False,
    )
    assert run.exit_code == 0, run.output
    return run.stdout


def test_the_server_gets_the_model_its_draft_the_rule_and_the_users_own_options(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(
        f"name: mine\nweights: {tiny_checkpoint}\ndtype: float32\nk: 5\nmax_model_len: 256\n"
        "engine: {enforce_eager: true}\nchat_template_kwargs: {enable_thinking: false}\n"
    )
    words = shlex.split(dry_run(yaml, "--theta", "0.85", "--", "--port", "8123"))
    assert words[:3] == ["MARS_RULE=mars:theta=0.85", "python", "-m"]
    assert str(tiny_checkpoint) in words[4:7]
    assert words[-2:] == ["--port", "8123"]
    pairs = list(itertools.pairwise(words))
    for expected in (
        ("--served-model-name", "mine"),
        ("--dtype", "float32"),
        ("--max-model-len", "256"),
        ("--default-chat-template-kwargs", '{"enable_thinking": false}'),
    ):
        assert expected in pairs
    assert "--enforce-eager" in words
    speculative = words[words.index("--speculative-config") + 1]
    assert '"num_speculative_tokens": 5' in speculative
    assert '"num_speculative_tokens": 3' in dry_run(yaml, "--k", "3")


def test_the_variables_of_the_plugin_hold_where_no_rule_is_given(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARS_RULE", "topk:k=3")
    assert "MARS_RULE=topk:k=3 " in dry_run(tiny_checkpoint)
    assert "MARS_RULE=mars:theta=0.8 " in dry_run(tiny_checkpoint, "--theta", "0.8")
    monkeypatch.setenv("MARS_RULE", "martian")
    with pytest.raises(UsageError, match="MARS_RULE: unknown rule"):
        dry_run(tiny_checkpoint)


def test_a_list_of_allowed_plugins_gets_ours(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "theirs")
    assert "VLLM_PLUGINS=theirs,mars " in dry_run(tiny_checkpoint)
    monkeypatch.setenv("VLLM_PLUGINS", "mars")
    assert "VLLM_PLUGINS" not in dry_run(tiny_checkpoint)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--theta", "0.9", "--rule", "typical"], "a server has one rule"),
        (["--theta", "2"], "--theta 2: theta must lie in"),
        (["--rule", "martian"], "--rule martian: unknown rule"),
        (["--draft", "none"], "--draft none"),
        (["8000"], "8000: `mars serve` takes no such argument"),
        (["--", "--model", "other"], "--model: is set by mars itself"),
        (["--", "--speculative-config={}"], "--speculative-config: is set by mars itself"),
    ],
)
def test_wrong_options_are_refused(tiny_checkpoint: Path, arguments: list[str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        dry_run(tiny_checkpoint, *arguments)


def test_a_chat_template_of_the_configuration_goes_to_the_server(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(f"name: mine\nweights: {tiny_checkpoint}\nchat_template: |-\n  {{{{ 1 }}}}\n")
    words = shlex.split(dry_run(yaml))
    assert words[words.index("--chat-template") + 1] == "{{ 1 }}"


def test_a_model_without_a_draft_says_that_it_drafts_by_ngram(tiny_checkpoint: Path) -> None:
    arguments = ["--model", str(tiny_checkpoint), "--dry-run"]
    run = CliRunner().invoke(serve.command, arguments, catch_exceptions=False)
    assert "has no draft of its own: drafting by n-gram" in run.stderr
